// Values of the wrong type: an error each, and the process lives.
'use strict';
const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const test = require('node:test');
const dllm = require('dllm');
const { makeTiny } = require('./tiny.js');

let tiny, decoder, generator, queue, ticket, trainer, objective, checkpoint, lua, folder;
test.before(async () => {
  tiny = await makeTiny(1);
  decoder = new dllm.Decoder(tiny.model, { steps: 6, gen_length: 12 });
  generator = new dllm.Generator(tiny.model, tiny.tokenizer);
  objective = new dllm.Objective('mdlm');
  trainer = new dllm.Trainer(tiny.model, objective);
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'dllm-'));
  await tiny.model.save(path.join(folder, 'model'));
  checkpoint = new dllm.Checkpoint(path.join(folder, 'model'));
  queue = new dllm.Queue(tiny.model, tiny.tokenizer);
  ticket = await queue.submit('the', { length: 2 });
  await ticket.wait(); // nothing decodes while the model is trained
  lua = dllm.hasFeature('lua') ? new dllm.Lua() : null;
});
test.after(() => fs.rmSync(folder, { recursive: true }));

// koffi takes a number as an address: each of these ended the process.
const CALLS = [
  (x) => tiny.tokenizer.id(x), (x) => tiny.model.setTokenizer(x), (x) => tiny.model.param(x), (x) => decoder.metric(x),
  (x) => generator.text(0, x), (x) => dllm.schema(x), (x) => dllm.names(x), (x) => dllm.hasFeature(x), (x) => dllm.pull(x),
  (x) => dllm.hub.describe(x), (x) => dllm.hub.verify(x), (x) => new dllm.Objective(x), (x) => new dllm.Schedule(x),
  (x) => new dllm.Decoder(x), (x) => new dllm.Generator(x, x), (x) => new dllm.Generator(tiny.model, x),
  (x) => new dllm.Trainer(x, x), (x) => new dllm.Trainer(tiny.model, x), (x) => new dllm.Loader(x), (x) => new dllm.Answer(x),
  (x) => tiny.model.addAdapter(x),
  (x) => tiny.model.loadAdapter('absent', x), (x) => tiny.model.saveAdapter('absent', x), (x) => tiny.model.mergeAdapter(x),
  (x) => tiny.model.removeAdapter(x), (x) => tiny.model.setAdapterScale(1, x),
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

// Every function that takes settings or options, by its name in index.d.ts: the call, a misspelt name and the right one.
// C: it takes a signal and a task. S: it takes settings of the library too.
const OPTIONS = {
  'Task.constructor': ['', (x) => new dllm.Task(x), 'dedline', 'deadline'],
  'Engine.constructor': ['S', (x) => new dllm.Engine(x), 'thread', 'threads'],
  'Engine.plan': ['CS', (x) => tiny.engine.plan('absent', x), 'sginal', 'signal'],
  'Tensor.constructor': ['', (x) => new dllm.Tensor([1], x), 'dtpe', 'dtype'],
  'Batch.set': ['', (x) => new dllm.Batch().set('a', [1], x), 'shap', 'shape'],
  'Model.load': ['CS', (x) => dllm.Model.load('absent', x), 'enigne', 'engine'],
  'Model.create': ['CS', (x) => dllm.Model.create(tiny.config, x), 'enigne', 'engine'],
  'Model.quantize': ['CS', (x) => dllm.Model.quantize('absent', 'other', x), 'sginal', 'signal'],
  'Model.save': ['CS', (x) => tiny.model.save(path.join(folder, 'no'), x), 'sginal', 'signal'],
  'Dataset.extractTrajectories': ['CS', (x) => tiny.data.extractTrajectories(tiny.model, 'absent/order.jsonl', x), 'sginal', 'signal'],
  'Loader.writeAnchors': ['CS', (x) => tiny.loader.writeAnchors(tiny.model, path.join(folder, 'no', 'anchors'), x), 'sginal', 'signal'],
  'Model.addAdapter': ['CS', (x) => tiny.model.addAdapter('a', x), 'sginal', 'signal'],
  'Model.loadAdapter': ['C', (x) => tiny.model.loadAdapter('absent', 'a', x), 'taks', 'task'],
  'Model.saveAdapter': ['C', (x) => tiny.model.saveAdapter(path.join(folder, 'no'), 'a', x), 'taks', 'task'],
  'Model.mergeAdapter': ['C', (x) => tiny.model.mergeAdapter('a', x), 'taks', 'task'],
  'Model.forward': ['CS', (x) => tiny.model.forward([1, 2], x), 'sginal', 'signal'],
  'Tokenizer.load': ['CS', (x) => dllm.Tokenizer.load('absent', x), 'sginal', 'signal'],
  'Tokenizer.train': ['CS', (x) => dllm.Tokenizer.train(tiny.data, x), 'sginal', 'signal'],
  'Tokenizer.encodeAsync': ['C', (x) => tiny.tokenizer.encodeAsync('a', x), 'taks', 'task'],
  'Tokenizer.chat': ['S', (x) => tiny.tokenizer.chat([], x), 'tols', 'tools'],
  'Tokenizer.chatAsync': ['CS', (x) => tiny.tokenizer.chatAsync([], x), 'sginal', 'signal'],
  'Answer.constructor': ['S', (x) => new dllm.Answer(tiny.tokenizer, x), 'stp', 'stop'],
  'Dataset.constructor': ['S', (x) => new dllm.Dataset(x), 'tokeniser', 'tokenizer'],
  'Dataset.open': ['CS', (x) => dllm.Dataset.open('absent', x), 'tokeniser', 'tokenizer'],
  'Dataset.of': ['S', (x) => dllm.Dataset.of([], x), 'tokeniser', 'tokenizer'],
  'Dataset.save': ['CS', (x) => tiny.data.save(path.join(folder, 'no'), x), 'sginal', 'signal'],
  'Loader.constructor': ['S', (x) => new dllm.Loader(tiny.data, x), 'bach', 'batch'],
  'Schedule.constructor': ['S', (x) => new dllm.Schedule('nano_sqrt', x), 'step', 'steps'],
  'Schedule.table': ['', (x) => dllm.Schedule.table(x), 'alhpa', 'alpha'],
  'Objective.constructor': ['S', (x) => new dllm.Objective('mdlm', x), 'schedul', 'schedule'],
  'Objective.prepare': ['', (x) => objective.prepare([1, 2], x), 'sed', 'seed'],
  'Objective.loss': ['C', (x) => objective.loss(tiny.model, [1, 2], x), 'sed', 'seed'],
  'Objective.rowLosses': ['C', (x) => objective.rowLosses(tiny.model, [1, 2], x), 'sed', 'seed'],
  'Trainer.constructor': ['S', (x) => new dllm.Trainer(tiny.model, objective, x), 'optimiser', 'optimizer'],
  'Trainer.step': ['C', (x) => trainer.step([1, 2], x), 'taks', 'task'],
  'Trainer.accumulate': ['C', (x) => trainer.accumulate([1, 2], x), 'taks', 'task'],
  'Trainer.apply': ['C', (x) => trainer.apply(x), 'taks', 'task'],
  'Trainer.run': ['C', (x) => trainer.run(tiny.loader, 1, x), 'onEvnt', 'onEvent'],
  'Trainer.eval': ['C', (x) => trainer.eval(tiny.loader, x), 'batchs', 'batches'],
  'Trainer.addSink': ['S', (x) => trainer.addSink('jsonl', path.join(folder, 'sink'), x)],
  'Decoder.constructor': ['S', (x) => new dllm.Decoder(tiny.model, x), 'step', 'steps'],
  'Decoder.start': ['', (x) => decoder.start([1], x), 'sed', 'seed'],
  'Decoder.add': ['S', (x) => decoder.add([1, 2], x), 'fixd', 'fixed'],
  'Decoder.step': ['C', (x) => decoder.step(x), 'taks', 'task'],
  'Decoder.stepFor': ['C', (x) => decoder.stepFor(1, x), 'onEvnt', 'onEvent'],
  'Decoder.steps': ['C', (x) => decoder.steps(x).next(), 'taks', 'task'],
  'Decoder.run': ['C', (x) => decoder.run(x), 'onEvnt', 'onEvent'],
  'Decoder.predict': ['C', (x) => decoder.predict(x), 'taks', 'task'],
  load: ['CS', (x) => dllm.load('absent', x), 'enigne', 'engine'],
  'Generator.constructor': ['S', (x) => new dllm.Generator(tiny.model, tiny.tokenizer, x), 'slot', 'slots'],
  'Generator.generate': ['CS', (x) => generator.generate('the', x), 'sginal', 'signal'],
  'Generator.infill': ['CS', (x) => generator.infill('the <mask>', x), 'sginal', 'signal'],
  'Generator.stream': ['CS', async (x) => generator.stream('the', x).next(), 'sginal', 'signal'],
  'Generator.batch': ['CS', (x) => generator.batch(['the'], x), 'sginal', 'signal'],
  'Generator.add': ['CS', (x) => generator.add(x), 'sginal', 'signal'],
  'Generator.step': ['C', (x) => generator.step(x), 'taks', 'task'],
  'Queue.constructor': ['S', (x) => new dllm.Queue(tiny.model, tiny.tokenizer, x), 'slot', 'slots'],
  'Queue.load': ['CS', (x) => dllm.Queue.load('absent', x), 'enigne', 'engine'],
  'Queue.submit': ['CS', (x) => queue.submit('the', x), 'sginal', 'signal'],
  'Queue.generate': ['CS', (x) => queue.generate('the', x), 'sginal', 'signal'],
  'Queue.drain': ['C', (x) => queue.drain(x), 'taks', 'task'],
  'Ticket.wait': ['C', (x) => ticket.wait(x), 'timeot', 'timeout'],
  'Ticket.generation': ['C', (x) => ticket.generation(x), 'taks', 'task'],
  'Generator.run': ['C', (x) => generator.run(x), 'onEvnt', 'onEvent'],
  'Checkpoint.open': ['C', (x) => dllm.Checkpoint.open('absent', x), 'taks', 'task'],
  'Checkpoint.verify': ['C', (x) => checkpoint.verify(x), 'taks', 'task'],
  saveCheckpoint: ['CS', (x) => dllm.saveCheckpoint(trainer, null, path.join(folder, 'run'), x), 'sginal', 'signal'],
  restoreCheckpoint: ['C', (x) => dllm.restoreCheckpoint(trainer, null, 'absent', x), 'taks', 'task'],
  latestCheckpointAsync: ['C', (x) => dllm.latestCheckpointAsync('absent', x), 'taks', 'task'],
  pull: ['CS', (x) => dllm.pull('absent', x), 'sginal', 'signal'],
  'hub.describe': ['CS', (x) => dllm.hub.describe('absent', x), 'sginal', 'signal'],
  'hub.list': ['C', (x) => dllm.hub.list(x), 'taks', 'task'],
  'hub.verify': ['C', (x) => dllm.hub.verify('absent', x), 'taks', 'task'],
  'hub.remove': ['C', (x) => dllm.hub.remove('absent', x), 'taks', 'task'],
  'Lua.constructor': ['S', (x) => new dllm.Lua(x), 'sandbx', 'sandbox'],
  'Lua.runFile': ['C', (x) => lua.runFile('absent', [], x), 'taks', 'task'],
  'Lua.runText': ['C', (x) => lua.runText('return 1', x), 'nme', 'name'],
  'Lua.call': ['C', (x) => lua.call('print', [], x), 'taks', 'task'],
};

test('the table has every function of index.d.ts with settings or options', () => {
  const found = new Set();
  let owner = '';
  for (const line of fs.readFileSync(path.join(__dirname, '../../../bindings/node/index.d.ts'), 'utf8').split('\n')) {
    const head = /^(?:export|declare abstract) (function|class|interface|namespace) (\w+)/.exec(line);
    if (head) owner = head[1] === 'function' ? '' : head[2];
    const name = head?.[1] === 'function' ? head[2] : /^ {2}(?:static |export function )*(\w+)\(/.exec(line)?.[1];
    if (name) found.last = owner ? `${owner}.${name}` : name;
    if (/\b(settings|control|form|columns)\??: /.test(line) && !/^ *(\*|\/)/.test(line)) found.add(found.last);
  }
  assert(found.size > 60, found.size);
  assert.deepEqual([...found].sort(), Object.keys(OPTIONS).sort());
});

class Settings {
  get length() {
    return 4;
  }
}

for (const [name, [takes, call, wrong, right]] of Object.entries(OPTIONS)) {
  test(`options of ${name}`, { skip: name.startsWith('Lua') && !dllm.hasFeature('lua') }, async () => {
    const refused = (value, problem) => assert.rejects(async () => call(value), problem, `${name} ${String(value)}`);
    for (const value of [null, 7, 'length', true, [1], () => 1, new Map([['length', 4]]), new Set(), new Settings(),
      new Date(), Object.create({ length: 4 })]) {
      await refused(value, { name: 'TypeError', message: /(settings|columns) are a plain object, not / });
    }
    await refused({ [Symbol('length')]: 4 }, { name: 'TypeError', message: /Symbol\(length\)/ });
    if (wrong) await refused({ [wrong]: 1 }, { code: 'NOT_FOUND', hint: `did you mean ${right}?` });
    await refused({ xyzxyzxyz: 1 }, { code: 'NOT_FOUND', message: /"xyzxyzxyz"/ });
    if (takes.includes('C')) {
      await refused({ signal: 5 }, { name: 'TypeError', message: 'signal is an AbortSignal, not 5' });
      await refused({ signal: new AbortController() }, { name: 'TypeError', message: /signal is an AbortSignal/ });
      await refused({ task: tiny.model }, { name: 'TypeError', message: 'task is a Task, not a Model' });
    }
    if (!takes.includes('S')) return;
    for (const value of [() => 1, Symbol('x'), new Set([1]), new Map(), new Settings(), new dllm.Task(), AbortSignal.abort(),
      Promise.resolve(1), [new Set()], { of: new Map() }, new ArrayBuffer(2), new DataView(new ArrayBuffer(2))]) {
      await refused({ xyzxyzxyz: value }, { name: 'TypeError', message: /^xyzxyzxyz.* is (a|an|Symbol).*: write / });
    }
    if (!takes.includes('C')) return;
    await refused({ sginal: AbortSignal.abort() }, { name: 'TypeError', message: /did you mean signal\?$/ });
  });
}

test('an option that is not set is no error', async () => {
  await generator.generate('the', { length: 2, signal: undefined, task: null, stop: undefined, other: undefined });
  decoder.start([1], { other: undefined });
  assert.equal(new dllm.Task({ deadline: undefined, other: undefined }).cancelled, false);
});

test('an object of dllm in the place of another is named', async () => {
  await assert.rejects(dllm.Model.load('absent', { engine: { threads: 1 } }),
    { message: 'engine is an Engine, not an object' });
  await assert.rejects(dllm.load('absent', { engine: 5 }),
    { message: 'engine is an Engine or a plain object, not 5' });
  assert.throws(() => new dllm.Dataset({ tokenizer: tiny.model }), { message: 'tokenizer is a Tokenizer, not a Model' });
  assert.throws(() => new dllm.Objective('mdlm', { schedule: 'linear' }), { message: 'schedule is a Schedule, not "linear"' });
  for (const arrays of [new Map(), 5]) assert.throws(() => new dllm.Batch(arrays), { message: /arrays are a plain object/ });
  assert.throws(() => new dllm.Source(new Map()), { message: 'files are a plain object, not a Map' });
});

test('values of settings that JSON holds', async () => {
  const suppressed = (value) => new dllm.Decoder(tiny.model, { suppress: value }).describe().options.suppress.length;
  assert.deepEqual([[3, 4], Int32Array.of(3, 4), Buffer.from([3, 4])].map(suppressed), [2, 2, 2]);
  const read = new dllm.Decoder(tiny.model, Object.assign(Object.create(null), { steps: new Number(3) })).describe();
  assert.equal(read.options.steps, 3);
  assert.throws(() => dllm.Dataset.of([{ text: new Map() }]), { message: 'text is a Map: write a plain object' });
  await assert.rejects(dllm.Model.create(undefined), { message: /^the value is undefined: write / });
});

test('a number that is not exact is refused where a whole number belongs', async () => {
  const { MAX_SAFE_INTEGER: most } = Number;
  const calls = [(seed) => generator.generate('the', { length: 2, seed }),
    (seed) => generator.batch(['the'], { length: 2, seed }), (seed) => decoder.start([1], { seed }), (seed) => objective.prepare([1, 2], { seed, model: tiny.model })];
  for (const call of calls) {
    await call(most);
    await call(BigInt(most) + 2n);
    await assert.rejects(async () => call(most + 2), { name: 'RangeError', message: /seed.*pass a BigInt/ });
    await assert.rejects(async () => call(2n ** 63n), RangeError);
    await assert.rejects(async () => call(1.5), Error);
  }
  for (const value of [1.5, NaN, '1', null, true, 2 ** 60]) {
    assert.throws(() => decoder.ids(value), /argument 2/, String(value));
    assert.throws(() => tiny.loader.seek(value), /argument 2/, String(value));
    await assert.rejects(trainer.run(tiny.loader, value, { onEvent() {} }), /argument 3/, String(value));
    await assert.rejects(trainer.eval(tiny.loader, { batches: value }), /batches/, String(value));
  }
  assert.throws(() => decoder.remove(), { message: /takes a whole number, not undefined/ });
  await assert.rejects(generator.generate('the', { temperature: 2 ** 60 }), { code: 'INVALID_ARGUMENT' });
});

test('an object with a toJSON gives its value, and not undefined', async () => {
  class Own {
    constructor(value) {
      this.value = value;
    }

    toJSON() {
      return this.value;
    }
  }
  const stepsOf = (value) => new dllm.Decoder(tiny.model, { steps: value }).describe().options.steps;
  assert.equal(stepsOf(new Own(3)), 3);
  const variables = (value) => generator.generate('the', { length: 2, variables: value });
  for (const [call, place] of [[() => stepsOf(new Own(undefined)), 'steps'],
    [() => new dllm.Decoder(tiny.model, { suppress: [1, new Own(undefined)] }), 'suppress, item 2'],
    [() => variables({ a: { b: new Own(undefined) } }), 'variables, a, b'],
    [() => dllm.Dataset.of([new Own(undefined)]), 'the value'], [() => dllm.Dataset.of([{ text: new Own(undefined) }]), 'text'],
    [() => generator.generate([new Own(undefined)], { length: 2 }), 'message 1'],
    [() => dllm.Model.create(new Own(undefined)), 'the value'],
    [() => stepsOf(new Own(new Own(undefined))), 'steps']]) {
    await assert.rejects(async () => call(),
      { name: 'TypeError', message: new RegExp(`^${place}: toJSON of an Own returns undefined`) }, place);
  }
  for (const wrong of [() => 1, Symbol('x'), new Set(), new Own(new Map())]) {
    assert.throws(() => stepsOf(new Own(wrong)), { name: 'TypeError', message: /^steps is .*: write / });
  }
});

test('elements of lists are exact, or refused', async () => {
  const given = (settings) => new dllm.Decoder(tiny.model, settings).describe().options;
  const { MAX_SAFE_INTEGER: most } = Number;
  for (const key of ['suppress', 'defer', 'guidance_keep']) {
    for (const value of [most + 1, -most - 1, 2 ** 60]) {
      assert.throws(() => given({ [key]: [1, value] }),
        { name: 'RangeError', message: new RegExp(`option ${key}, item 2: a Number is exact up to .*pass a BigInt`) }, value);
      assert.throws(() => given({ [key]: Float64Array.of(value) }), RangeError);
    }
    assert.throws(() => given({ [key]: [2n ** 63n] }), { name: 'RangeError', message: /item 1 has 64 bits/ });
    for (const value of [NaN, Infinity, -Infinity, 1.5, -0, null, true, [1]]) {
      assert.throws(() => given({ [key]: [1, value] }), { code: 'INVALID_ARGUMENT' }, String(value));
    }
    for (const list of [[1, undefined], [1, , 2]]) { // eslint-disable-line no-sparse-arrays
      assert.throws(() => given({ [key]: list }), { name: 'TypeError', message: new RegExp(`^${key}, item 2 is undefined`) });
    }
    assert.deepEqual([...given({ [key]: [3n, 4, 0] })[key]].map(Number), [3, 4, 0]);
    assert.deepEqual([...given({ [key]: BigInt64Array.of(3n, 4n) })[key]].map(Number), [3, 4]);
  }
  // A list of numbers with a fraction: its numbers arrive bit for bit.
  const alphas = [1, 0.1 + 0.2, 5e-324, -0];
  const { schedule_alphas: back } = given({ schedule_alphas: alphas });
  const read = typeof back === 'string' ? JSON.parse(back) : back;
  assert(alphas.every((value, at) => Object.is(value, read[at])), String(read));
});

test('numbers of any JSON are exact', { skip: !dllm.hasFeature('lua') }, async () => {
  const values = [0, -0, 0.1, 5e-324, 1.7976931348623157e308, 2 ** 53, 2 ** 53 + 2, -(2 ** 60), 1e20, 1e21, -1e300];
  const [hex] = await lua.call('string.format', [values.map(() => '%a').join(' '), ...values]);
  const own = hex.split(' ').map((text) => {
    const [, sign, head, rest = '', power] = /^(-?)0x(\d)\.?([0-9a-f]*)p([+-]\d+)$/.exec(text);
    const digits = Number(BigInt(`0x${head}${rest}`)); // at most 53 bits
    const scaled = digits * 2 ** (Number(power) < -1000 ? -60 : 0) * 2 ** -(4 * rest.length) * 2 ** (Number(power) + (Number(power) < -1000 ? 60 : 0));
    return sign ? -scaled : scaled;
  });
  assert.deepEqual(own, values);
  for (const whole of [2n ** 53n + 1n, 2n ** 63n - 1n, -(2n ** 63n)]) {
    lua.set('whole', { list: [whole] });
    assert.deepEqual(await lua.runText('return math.type(whole.list[1]), string.format("%d", whole.list[1])'), ['integer', String(whole)]);
  }
  assert.throws(() => lua.set('whole', [2n ** 63n]), RangeError);
});

test('an object of dllm is not cloned', async () => {
  const { port1, port2 } = new MessageChannel();
  for (const object of [tiny.model, tiny.tokenizer, generator, decoder, trainer, new dllm.Task(), new dllm.Tensor([1])]) {
    for (const way of [(value) => structuredClone(value), (value) => structuredClone([value])[0],
      (value) => ({ ...value }), (value) => { port1.postMessage(value); }]) {
      let made;
      try {
        made = way(object);
      } catch (problem) {
        assert.equal(problem.name, 'DataCloneError');
        continue;
      }
      if (made === undefined) continue;
      assert.deepEqual([made instanceof object.constructor, made.pointer, Reflect.ownKeys(made).length], [false, undefined, 0]);
    }
    assert.equal(object.closed, false);
  }
  port1.close();
  port2.close();
});

test('a stream that is left gives its slot back', async () => {
  const small = new dllm.Generator(tiny.model, tiny.tokenizer, { slots: 1 });
  const stream = () => small.stream('the', { length: 6, steps: 6 });
  const isFree = async () => assert.equal((await small.generate('the', { length: 2 })).finish, 'full');
  for await (const piece of stream()) if (piece.step === 2) break;
  await isFree();
  await assert.rejects((async () => { for await (const piece of stream()) throw new Error(piece.text); })(), Error);
  await isFree();
  const inFunction = async () => { for await (const piece of stream()) return piece.step; return 0; };
  assert.equal(await inFunction(), 1);
  await isFree();
  for (const leave of [(one) => one.return(), (one) => one.close(), (one) => one[Symbol.asyncDispose]()]) {
    const left = stream();
    await left.next();
    await leave(left);
    await isFree();
    assert.deepEqual(await left.next(), { value: undefined, done: true });
  }
  const unread = stream(); // has no request before its first piece
  await isFree();
  await unread.return();
  async function* texts() {
    for await (const piece of stream()) yield piece.text;
  }
  for await (const text of texts()) { // a generator around it passes the end on
    assert.equal(typeof text, 'string');
    break;
  }
  await isFree();
});

test('a generator without a free slot says what frees one', async () => {
  const small = new dllm.Generator(tiny.model, tiny.tokenizer, { slots: 1 });
  const left = small.stream('the', { length: 4 });
  await left.next();
  await assert.rejects(small.generate('the', { length: 4 }),
    { code: 'RESOURCE_EXHAUSTED', hint: /return\(\).*left.*option slots/ });
  await left.return();
  assert.equal((await small.generate('the', { length: 4 })).finish, 'full');
});
