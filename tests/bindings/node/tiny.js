// A model, a tokenizer and text small enough for every test.
'use strict';
const dllm = require('dllm');

const SENTENCES = Array.from({ length: 200 }, (_, i) =>
  `the cat sat on the mat and looked at the moon number ${i % 7}`);

// One of everything; training continues on the same model.
async function makeTiny(layers = 2) {
  const engine = new dllm.Engine({ threads: 2 });
  const tokenizer = await dllm.Tokenizer.train(dllm.Dataset.of(SENTENCES), { vocab_size: 300 });
  const data = dllm.Dataset.of(SENTENCES, { tokenizer });
  const loader = new dllm.Loader(data, { batch: 4, length: 32, epochs: 0 });
  const config = {
    model_type: 'llama', vocab_size: tokenizer.size, hidden_size: 64, intermediate_size: 128, num_hidden_layers: layers,
    num_attention_heads: 2, num_key_value_heads: 2, max_position_embeddings: 64, tie_word_embeddings: true,
    dllm: { attention: 'bidirectional', shift: 0, mask_token_id: tokenizer.id('<|mask|>') },
  };
  return { engine, tokenizer, data, loader, config, model: await dllm.Model.create(config, { engine }) };
}

module.exports = { SENTENCES, makeTiny };
