// Text in and text out: the same texts as the program, pieces, batches, errors, cancelling, closing.
'use strict';
const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const test = require('node:test');
const { setFlagsFromString } = require('node:v8');
const { runInNewContext } = require('node:vm');
const dllm = require('dllm');

const ROOT = path.join(__dirname, '..', '..', '..');
const TABLE = JSON.parse(fs.readFileSync(path.join(ROOT, 'tests/bindings/generate_cases.json'), 'utf8'));
const MODEL = path.join(ROOT, TABLE.model);
const TEMPLATE = '{% for m in messages %}{{ m.content }}{% endfor %}';

let generator;
test.before(async () => {
  generator = await dllm.load(MODEL, { engine: { threads: 1 }, slots: 4 });
});
test.afterEach(() => assert.equal(generator.describe().requests, 0, 'a request is left'));

async function piecesOf(stream) {
  const pieces = [];
  for await (const piece of stream) pieces.push(piece);
  return pieces;
}

for (const { name, call, text, settings, expect } of TABLE.cases) {
  test(`${name}: the text of the program`, async () => {
    assert.equal((await generator[call](text, settings)).whole, expect);
    if (call === 'infill') return;
    const stream = generator.stream(text, settings);
    const pieces = await piecesOf(stream);
    assert.equal(pieces.join(''), stream.generation.text);
    assert.equal(stream.generation.whole, expect);
    assert.deepEqual(pieces.map((piece) => piece.step), pieces.map((_, at) => at + 1));
  });
}

test('a generation has its numbers', async () => {
  const made = await generator.generate('Once upon a time', { length: 24, steps: 12, seed: 1 });
  assert.deepEqual([String(made), made.whole], [made.text, `Once upon a time${made.text}`]);
  assert.deepEqual([made.finish, made.completionTokens, made.steps, made.nfe, made.seed, made.policy],
    ['full', 24, 12, 12, 1, 'low_confidence']);
  assert.deepEqual(made.ids.slice(0, made.promptTokens), Array.from(generator.tokenizer().encode('Once upon a time')));
  assert.equal(made.confidence.length, made.ids.length);
  const filled = await generator.infill('The<mask:3> was sad. Then<mask:5> came home.', { steps: 4 });
  assert.equal(filled.text, `The${filled.holes[0]} was sad. Then${filled.holes[1]} came home.`);
});

test('messages go through the template', async () => {
  const messages = [{ role: 'user', content: 'Once upon ' }, { role: 'user', content: 'a time' }];
  const settings = { length: 8, steps: 4 };
  const chat = await generator.generate(messages, { ...settings, template: TEMPLATE });
  assert.equal(String(chat), String(await generator.generate('Once upon a time', settings)));
  await assert.rejects(generator.generate(messages), { code: 'FAILED_PRECONDITION' });
});

test('a stream that is left early removes its request', async () => {
  const stream = generator.stream('The sun', { length: 8 });
  for await (const piece of stream) {
    assert.match(piece.canvas, /^The sun.*<mask/);
    assert.equal(generator.describe().requests, 1);
    break;
  }
  assert.throws(() => stream.generation, { code: 'FAILED_PRECONDITION' });
  assert.deepEqual(await piecesOf(stream), []);
});

test('pieces that are asked for at the same time come in order', async () => {
  const stream = generator.stream('The sun', { length: 6, steps: 3 });
  const results = await Promise.all([stream.next(), stream.next(), stream.next(), stream.next()]);
  assert.deepEqual(results.map(({ value, done }) => [value?.step, done]), [[1, false], [2, false], [3, false], [undefined, true]]);
  const left = generator.stream('The sun', { length: 6, steps: 3 });
  const first = left.next();
  await left.close(); // its request is removed after the first piece
  assert.equal((await first).value.step, 1);
});

test('one failed request leaves the others', async () => {
  const every = Int32Array.from({ length: generator.model().get('vocab') }, (_, id) => id);
  const good = [await generator.add({ prompt: 'The sun', length: 8, seed: 1 }), await generator.add({ prompt: 'The sun', length: 8, seed: 2n })];
  const bad = await generator.add({ prompt: 'The sun', length: 8, suppress: every });
  await generator.run();
  assert.throws(() => generator.text(bad), dllm.DllmError);
  assert.equal(generator.describe(bad).finish, 'failed');
  const texts = good.map((request) => generator.text(request));
  for (const request of [...good, bad]) generator.remove(request);
  for (const [at, text] of texts.entries()) {
    assert.equal(text, String(await generator.generate('The sun', { length: 8, seed: at + 1 })));
  }
  await assert.rejects(generator.generate('The sun', { length: 8, suppress: every }), dllm.DllmError);
  await assert.rejects(piecesOf(generator.stream('The sun', { length: 8, suppress: every })), dllm.DllmError);
});

test('a batch has a result for each prompt', async () => {
  // Nine prompts and four slots; the model allows 1024 positions.
  const prompts = ['The sun', 'The sun '.repeat(1000), 'A cat', 'Tom', 'Mia', 'The sun', 'A dog', 'Tom', 'Mia'];
  const results = await generator.batch(prompts, { length: 8, steps: 4, seed: 5 });
  assert.equal(results.length, prompts.length);
  for (const [at, prompt] of prompts.entries()) {
    if (at === 1) {
      assert.equal(results[at].code, 'OUT_OF_RANGE');
      continue;
    }
    const alone = await generator.generate(prompt, { length: 8, steps: 4, seed: 5 + at });
    assert.deepEqual([String(results[at]), results[at].seed], [String(alone), 5 + at]);
  }
  assert.deepEqual(await generator.batch([]), []);
  await assert.rejects(generator.batch('The sun'), TypeError);
});

test('calls that are not awaited run one after another', async () => {
  const settings = { length: 8, steps: 4 };
  const alone = [String(await generator.generate('The sun', settings)), String(await generator.generate('A cat', settings))];
  const stream = generator.stream('A cat', settings);
  const together = await Promise.all([generator.generate('The sun', settings), piecesOf(stream),
    generator.batch(['The sun'], settings)]);
  assert.deepEqual([String(together[0]), together[1].join(''), String(together[2][0])], [...alone, alone[0]]);
});

test('settings that are wrong are refused', async () => {
  for (const settings of [{ temprature: 1 }, { policy: 'random', threshold: 0.5 }]) {
    const message = settings.policy ? /threshold/ : /did you mean temperature/;
    await assert.rejects(generator.generate('The sun', settings), { code: 'NOT_FOUND', message });
    await assert.rejects(generator.infill('The <mask>', settings), { code: 'NOT_FOUND', message });
    await assert.rejects(generator.batch(['The sun'], settings), { code: 'NOT_FOUND', message });
    await assert.rejects(generator.stream('The sun', settings).next(), { code: 'NOT_FOUND', message });
  }
  for (const settings of [{ temperature: -1 }, { length: -1 }, { temperature: NaN }, { length: '8' }, { seed: 1.5 }]) {
    await assert.rejects(generator.generate('The sun', settings), { code: 'INVALID_ARGUMENT' }, JSON.stringify(settings));
  }
  await assert.rejects(generator.generate('The sun', { seed: 2n ** 64n }), RangeError);
  await assert.rejects(generator.generate('The sun', { stop_ids: [2n ** 63n] }), RangeError);
  assert.equal((await generator.generate('The sun', { length: 2, stop_ids: [1n] })).finish, 'full');
  await assert.rejects(generator.generate(null), TypeError);
  await assert.rejects(generator.generate('The sun', { prompt: 'The moon' }), TypeError);
  await assert.rejects(dllm.load('nowhere'), { code: 'NOT_FOUND' });
  for (const [key, message] of [['polcy', /did you mean policy/], ['dtpe', /did you mean dtype/], ['xyz', /dtype, engine, heads/]]) {
    await assert.rejects(dllm.load(MODEL, { [key]: 'random' }), { code: 'NOT_FOUND', message });
  }
  await assert.rejects(dllm.load(MODEL, { engine: { thread: 1 } }), { code: 'NOT_FOUND', message: /threads/ });
});

test('what JSON cannot hold is named', async () => {
  const half = 'ab\ud800';
  for (const [settings, message] of [
    [{ temperature: NaN }, 'temperature is NaN: write a finite number'],
    [{ top_p: -Infinity }, 'top_p is -Infinity: write a finite number'],
    [{ stop: ['x', half] }, 'stop, item 2: a lone surrogate at character 3'],
    [{ variables: { a: [1, NaN] } }, 'variables, a, item 2 is NaN: write a finite number'],
    [{ variables: { a: Float32Array.of(1, NaN) } }, 'variables, a, item 2 is NaN: write a finite number'],
    [{ [half]: 1 }, 'the name "ab\\ud800": a lone surrogate at character 3'],
  ]) {
    await assert.rejects(generator.generate('The sun', settings), { code: 'INVALID_ARGUMENT', message });
  }
  await assert.rejects(generator.generate(half), { message: 'prompt: a lone surrogate at character 3' });
  await assert.rejects(generator.generate([{ role: 'user', content: 'Hi' }, { role: 'user', content: half }]),
    { message: 'message 2, content: a lone surrogate at character 3' });
  await assert.rejects(dllm.Model.create({ dllm: { shift: NaN } }), { message: 'dllm, shift is NaN: write a finite number' });
  const itself = {};
  itself.own = itself;
  await assert.rejects(dllm.Model.create(itself), TypeError);
});

test('signals and tasks cancel, and the generator goes on', async () => {
  const signal = AbortSignal.abort();
  const task = new dllm.Task();
  task.cancel();
  for (const [control, wanted] of [[{ signal }, { name: 'AbortError' }], [{ task }, { code: 'CANCELLED' }]]) {
    await assert.rejects(dllm.load(MODEL, control), wanted);
    await assert.rejects(generator.generate('The sun', control), wanted);
    await assert.rejects(generator.infill('The <mask>', control), wanted);
    await assert.rejects(generator.batch(['The sun'], control), wanted);
    await assert.rejects(piecesOf(generator.stream('The sun', control)), wanted);
  }
  const stop = new AbortController();
  const request = await generator.add({ prompt: 'The sun', length: 8, steps: 8 });
  await assert.rejects(generator.run({ signal: stop.signal, onEvent: () => stop.abort() }), { name: 'AbortError' });
  await generator.run(); // the cancelled request is open and continues
  const text = generator.text(request);
  generator.remove(request);
  assert.equal(text, String(await generator.generate('The sun', { length: 8, steps: 8 })));
});

test('the wait for another call ends as the call would', async () => {
  const stop = new AbortController();
  const long = generator.generate('The sun', { length: 800, steps: 800, signal: stop.signal });
  let isOver = false;
  long.catch(() => { isOver = true; });
  const ways = [
    [() => ({ task: new dllm.Task({ deadline: 20 }) }), { code: 'DEADLINE_EXCEEDED', message: "the task's deadline has passed" }],
    [() => ({ signal: AbortSignal.timeout(20) }), { name: 'TimeoutError' }],
    [() => ({ signal: AbortSignal.abort() }), { name: 'AbortError' }],
    [() => {
      const task = new dllm.Task({ deadline: 600_000 });
      setTimeout(() => task.cancel(), 20);
      return { task };
    }, { code: 'CANCELLED', message: 'the task was cancelled' }],
    [() => {
      const task = new dllm.Task();
      setTimeout(() => task.close(), 20);
      return { task };
    }, dllm.ClosedError],
  ];
  for (const [control, wanted] of ways) {
    await assert.rejects(generator.generate('The sun', control()), wanted);
    await assert.rejects(generator.infill('The <mask>', control()), wanted);
    await assert.rejects(generator.batch(['The sun'], control()), wanted);
    await assert.rejects(piecesOf(generator.stream('The sun', control())), wanted);
  }
  assert.equal(isOver, false);
  const after = generator.generate('The sun', { length: 4 });
  stop.abort();
  await assert.rejects(long, { name: 'AbortError' });
  assert.equal((await after).finish, 'full');
});

test('a stream that nothing refers to any more loses its request', async () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc');
  await generator.stream('The sun', { length: 8 }).next();
  assert.equal(generator.describe().requests, 1);
  for (let tries = 0; generator.describe().requests > 0 && tries < 100; tries++) {
    collect();
    await new Promise((resolve) => { setTimeout(resolve, 10); });
  }
  assert.equal(generator.describe().requests, 0);
});

test('events have the pieces and the answer', async () => {
  const request = await generator.add({ prompt: 'The sun', length: 8, steps: 4 });
  const events = [];
  await generator.run({ onEvent: (event) => { events.push(event); } });
  assert.deepEqual(events.map((event) => event.kind), ['text', 'text', 'text', 'text', 'answer']);
  assert.equal(events.map((event) => event.text ?? '').join(''), generator.text(request));
  assert.deepEqual(Array.from(generator.decoder().ids(request)), generator.describe(request).ids);
  assert.throws(() => generator.text(request, 'beginning'), { code: 'NOT_FOUND' });
  generator.remove(request);
  assert.throws(() => generator.remove(request), { code: 'NOT_FOUND' });
});

test('a closed generator throws', async () => {
  const made = new dllm.Generator(generator.model(), generator.tokenizer(), { policy: 'random' });
  assert.equal(made.describe().policy, 'random');
  const stream = made.stream('The sun', { length: 8 });
  await stream.next();
  made.close();
  made.close();
  assert.throws(() => made.describe(), dllm.ClosedError);
  await assert.rejects(made.generate('The sun'), dllm.ClosedError);
  await assert.rejects(stream.next(), dllm.ClosedError);
});
