// Values of the wrong type: an error each, and the process lives.
'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');
const dllm = require('dllm');
const { makeTiny } = require('./tiny.js');

let tiny, decoder, generator;
test.before(async () => {
  tiny = await makeTiny(1);
  decoder = new dllm.Decoder(tiny.model, { steps: 6, gen_length: 12 });
  generator = new dllm.Generator(tiny.model, tiny.tokenizer);
});

// koffi takes a number as an address: each of these ended the process.
const CALLS = [
  (x) => tiny.tokenizer.id(x), (x) => tiny.model.setTokenizer(x), (x) => tiny.model.param(x), (x) => decoder.metric(x),
  (x) => generator.text(0, x), (x) => dllm.schema(x), (x) => dllm.names(x), (x) => dllm.hasFeature(x), (x) => dllm.pull(x),
  (x) => dllm.hub.describe(x), (x) => dllm.hub.verify(x), (x) => new dllm.Objective(x), (x) => new dllm.Schedule(x),
  (x) => new dllm.Decoder(x), (x) => new dllm.Generator(x, x), (x) => new dllm.Generator(tiny.model, x),
  (x) => new dllm.Trainer(x, x), (x) => new dllm.Trainer(tiny.model, x), (x) => new dllm.Loader(x), (x) => new dllm.Answer(x),
  (x) => dllm.Dataset.open('absent', { tokenizer: x }), (x) => dllm.Model.load('absent', { engine: x }),
];
for (const call of CALLS) {
  test(`a number is refused: ${call}`, async () => {
    for (const value of [5, 5n, NaN, true, Symbol('x')]) await assert.rejects(async () => call(value), Error, String(value));
  });
}

test('a text with a byte 0 is refused, not cut', () => {
  assert.throws(() => tiny.tokenizer.id('a\0b'), /without a byte 0/);
});

test('onEvent returns nothing or STOP', async () => {
  const run = async (onEvent) => {
    const number = await generator.add({ prompt: 'the cat', length: 4 });
    try {
      await generator.run({ onEvent });
      return generator.describe(number).finish;
    } finally {
      generator.remove(number);
    }
  };
  for (const value of [-1, 0, 1, 2, 1.5, true, 'x', {}, 1n]) {
    let seen = 0;
    await assert.rejects(run(() => (seen++, value)), /onEvent returns nothing or dllm.STOP/, String(value));
    assert.equal(seen, 1);
  }
  assert.equal(await run(() => dllm.STOP), 'open');
  for (const value of [undefined, null, dllm.CONTINUE]) assert.notEqual(await run(() => value), 'open');
});
