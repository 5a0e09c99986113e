// What callers get is typed; test_package.py also checks it with two mistakes in it.
import { Decoder, Model, Tokenizer, Trainer, Loader, Dataset, Objective, DllmError, STOP } from 'dllm';

async function decode(path: string, signal: AbortSignal): Promise<string> {
  const model = await Model.load(path, { signal, dtype: 'f32' });
  const tokenizer = await Tokenizer.load(path);
  using decoder = new Decoder(model, { steps: 8 });
  decoder.start(tokenizer.encode('the'), { seed: 1 });
  for await (const active of decoder.steps({ signal })) console.log(active + 1);
  return tokenizer.decode(decoder.ids());
}
async function train(model: Model, tokenizer: Tokenizer): Promise<void> {
  const loader = new Loader(Dataset.of(['a'], { tokenizer }), { batch: 1 });
  const trainer = new Trainer(model, new Objective('mdlm'), { lr: 1e-3 });
  try {
    await trainer.run(loader, 10, { onEvent: (event) => (event.loss < 1 ? STOP : undefined) });
  } catch (problem) {
    if (problem instanceof DllmError) console.log(problem.code, problem.hint);
  }
}
void decode; void train;
