// What one call costs in Node: the smallest of many rounds, in nanoseconds.
'use strict';
const dllm = require('dllm');

const CALLS = 5000;
const ROUNDS = 50;

function measure(name, call) {
  let best = Infinity;
  for (let round = 0; round < ROUNDS; round += 1) {
    const begin = process.hrtime.bigint();
    for (let i = 0; i < CALLS; i += 1) call();
    best = Math.min(best, Number(process.hrtime.bigint() - begin) / CALLS);
  }
  console.log(`${name} ${best.toFixed(1)}`);
}

async function main() {
  const model = await dllm.Model.create({
    model_type: 'llama', vocab_size: 32, hidden_size: 16, intermediate_size: 16, num_hidden_layers: 1,
    num_attention_heads: 1, num_key_value_heads: 1, max_position_embeddings: 32,
    dllm: { attention: 'bidirectional', mask_token_id: 1 },
  });
  const decoder = new dllm.Decoder(model, { steps: 2, gen_length: 4 });
  decoder.start([2, 3], { seed: 7 });
  measure('version', dllm.abiVersion);
  measure('metric', () => decoder.metric('open'));
  measure('ids', () => decoder.ids());
  measure('task', () => new dllm.Task().close());
}

main();
