// Settings are typed; test_package.py also checks copies of this function, each with one mistake in it.
import { Decoder, DllmError, Engine, Model, Objective, Trainer, load, type EngineSettings, type RequestSettings } from 'dllm';

export async function work(path: string, trained: Model, objective: Objective, signal: AbortSignal): Promise<string> {
  const on: EngineSettings = { threads: 2, 'pjrt.device': 0 };
  const model = await load(path, { engine: new Engine(on), dtype: 'q8_0', policy: 'threshold', slots: 8, signal });
  const request: RequestSettings = { length: 8, stop: ['.'], temperature: 0.5, seed: 7n };
  const answer = await model.generate('the', { ...request, signal });
  const chosen = await model.infill('the <mask:3>', { policy: 'threshold', threshold: 0.6 });
  const chat = await model.generate([{ role: 'user', content: 'the' }], { tools: [{ name: 'f' }] });
  const number = await model.add({ infill: 'the <mask:2>', steps: 2 });
  const stream = model.stream('the', { length: 9 });
  for await (const piece of stream) console.log(piece.text, piece.canvas, piece.open + piece.step);
  const both = await model.batch(['the', 'cat'], { seed: 1 });
  const texts = both.map((each) => (each instanceof DllmError ? each.hint : each.whole));
  const decoder = new Decoder(trained, { policy: 'dream', alg_temp: 0.1 });
  decoder.add([1, 2], { stop: [3], fixed: [true, false] });
  await Model.load(path, { cache_dtype: 'int8' });
  await trained.addAdapter('style', { rank: 4, targets: ['q'], signal });
  new Trainer(trained, objective, { optimizer: 'muon', lr: 1e-3 });
  return answer.text + String(chat) + answer.finish + chosen.holes.join('') + texts[number] + stream.generation;
}
