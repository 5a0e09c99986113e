// Every noun: what goes in comes out, and what does not fit is refused.
'use strict';
const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const test = require('node:test');
const { pathToFileURL } = require('node:url');
const dllm = require('dllm');
const { makeTiny } = require('./tiny.js');

let tiny;
let folder;
test.before(async () => {
  tiny = await makeTiny(1);
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'dllm-'));
});
test.after(() => fs.rmSync(folder, { recursive: true }));

test('arrays keep type, shape and values', () => {
  const batch = new dllm.Batch({ ids: [[1, 2, 3], [4, 5, 6]], t: [0.5, 0.25], rows: [0, 2] });
  assert.deepEqual(batch.names(), ['ids', 't', 'rows']);
  assert.deepEqual(batch.get('ids'), Int32Array.of(1, 2, 3, 4, 5, 6));
  assert.deepEqual(batch.tensor('ids').shape, [2, 3]);
  assert.deepEqual(batch.get('t'), Float32Array.of(0.5, 0.25));
  assert.deepEqual(batch.get('rows'), BigInt64Array.of(0n, 2n));
  const tensor = new dllm.Tensor(Float64Array.of(1, 2, 3, 4), { shape: [2, 2] });
  assert.deepEqual([tensor.dtype, tensor.shape], ['f64', [2, 2]]);
  assert.deepEqual(tensor.read('f32'), Float32Array.of(1, 2, 3, 4));
});

test('arrays that do not fit throw', () => {
  for (const ids of [[[1, 2], [3]], [[2 ** 40]], [[0.5]]]) {
    assert.throws(() => new dllm.Batch({ ids }), RangeError, JSON.stringify(ids));
  }
  // Each of these is a number for Number().
  for (const wrong of ['x', '7', '', null, undefined, [], {}, Symbol('x')]) {
    for (const make of [() => new dllm.Batch({ ids: [[1, wrong]] }), () => new dllm.Tensor([1, wrong]),
      () => tiny.tokenizer.decode([1, wrong]), () => new dllm.Batch({ t: [wrong] })]) assert.throws(make, /write a number|rows of|dimensions/, String(wrong));
  }
  for (const wrong of [7, '7', undefined, null, {}, new Set([7])]) {
    assert.throws(() => tiny.tokenizer.decode(wrong), { name: 'TypeError', message: /^ids is an array of numbers, not / });
    assert.throws(() => dllm.Schedule.table({ t: [0, 1], alpha: wrong }), { message: /^alpha is an array of numbers/ });
  }
  assert.throws(() => new dllm.Batch({ rows: [0, 2 ** 60] }), { name: 'RangeError', message: /item 2: .*pass a BigInt/ });
  assert.deepEqual(new dllm.Batch({ rows: [0, 2n ** 60n] }).get('rows'), BigInt64Array.of(0n, 2n ** 60n));
  assert.throws(() => new dllm.Tensor([1, 2, 3], { shape: [2, 2] }), RangeError);
  assert.throws(() => new dllm.Tensor([1], { dtype: 'f128' }), RangeError);
  assert.throws(() => new dllm.Batch().get('nothing'), { code: 'NOT_FOUND' });
});

test('settings are checked by the library', () => {
  assert.throws(() => new dllm.Decoder(tiny.model, { steps: 'many' }), { code: 'INVALID_ARGUMENT' });
  assert.throws(() => new dllm.Trainer(tiny.model, new dllm.Objective('mdlm'), { lr: -1 }), { code: 'INVALID_ARGUMENT' });
  assert.equal(new dllm.Decoder(tiny.model, { steps: undefined, suppress: Int32Array.of(3, 4) }).describe().options.suppress.length, 2);
  assert(dllm.schema('decoder').keys.some((key) => key.name === 'steps'));
});

test('models and tokenizers have no constructor', () => {
  assert.throws(() => new dllm.Model(), TypeError);
  assert.throws(() => new dllm.Tokenizer(), TypeError);
});

test('an answer grows and ends', () => {
  const ids = tiny.tokenizer.encode('the cät sat. User: no');
  const answer = new dllm.Answer(tiny.tokenizer, { stop_texts: ['. User:', 'Bot:'] });
  let shown = '';
  let end = null;
  for (let count = 0; end === null; count++) {
    end = answer.update(ids, Array.from(ids, (_, index) => (index < count ? dllm.FINAL : dllm.MASKED)));
    shown += answer.next();
    assert('the cät sat'.startsWith(shown), shown);
  }
  assert.deepEqual([shown, end, answer.text()], ['the cät sat', 'stop_text', 'the cät sat']);
  answer.update(ids, Array.from(ids, () => dllm.FINAL));
  assert.equal(answer.cells().length, ids.length);
  assert.equal(answer.cells().join(''), 'the cät sat. User: no');
  assert.deepEqual(new dllm.Answer(tiny.tokenizer).cells(), []);
  assert.throws(() => answer.update(ids, [dllm.FINAL]), RangeError);
  assert.throws(() => answer.update([1], [7]), { code: 'INVALID_ARGUMENT' });
});

test('chat keeps what is given', () => {
  const template = '{% for m in messages %}{{ m.content }}{{ mark }}{% endfor %}';
  const messages = [{ role: 'user', content: 'the <|mask|>' }, { role: 'assistant', content: 'cat' }];
  assert.throws(() => tiny.tokenizer.chat(messages), { code: 'FAILED_PRECONDITION' });
  const { ids, keep } = tiny.tokenizer.chat(messages, { template, variables: { mark: '.' } });
  assert.equal(tiny.tokenizer.decode(ids), 'the <|mask|>.cat.');
  assert.equal(tiny.tokenizer.decode(ids.filter((_, index) => !keep[index])), 'cat');
});

test('texts come back, whole characters at a time', async () => {
  const ids = tiny.tokenizer.encode('a möön');
  assert.deepEqual(await tiny.tokenizer.encodeAsync('a möön'), ids);
  assert.deepEqual(tiny.tokenizer.decodeStream(ids), { text: 'a möön', used: ids.length });
  assert.throws(() => tiny.tokenizer.decode([-1]), { code: 'INVALID_ARGUMENT' });
});

test('a loader ends', async () => {
  const loader = new dllm.Loader(tiny.data, { batch: 50, length: 32, epochs: 1 });
  let batches = 0;
  for await (const batch of loader) batches += batch.has('ids');
  assert(batches > 0);
  assert.equal(await loader.next(), null);
  loader.seek(0);
  assert.equal(loader.position, 0);
});

test('a restored run goes on bit for bit', async () => {
  const weights = async (model) => Promise.all(model.paramNames().map(async (name) => (await model.param(name)).read()));
  const made = async () => {
    const own = await makeTiny(1);
    return { ...own, trainer: new dllm.Trainer(own.model, new dllm.Objective('mdlm'), { lr: 1e-3 }) };
  };
  const straight = await made();
  await straight.trainer.run(straight.loader, 4);
  const first = await made();
  await first.trainer.run(first.loader, 2);
  const root = path.join(folder, 'run');
  assert.equal(dllm.latestCheckpoint(root), null);
  const saved = await dllm.saveCheckpoint(first.trainer, first.loader, root, { script_state: { note: 1 } });
  assert.equal(fs.realpathSync(dllm.latestCheckpoint(root)), fs.realpathSync(saved));
  await new dllm.Checkpoint(saved).verify();
  assert.equal(await dllm.latestCheckpointAsync(path.join(folder, 'nowhere')), null);
  assert.equal(fs.realpathSync(await dllm.latestCheckpointAsync(root)), fs.realpathSync(saved));
  await (await dllm.Checkpoint.open(saved)).verify();
  const task = new dllm.Task();
  task.cancel();
  for (const refused of [dllm.latestCheckpointAsync(root, { task }), dllm.Checkpoint.open(saved, { task }),
    dllm.Tokenizer.load(saved, { task })]) await assert.rejects(refused, { code: 'CANCELLED' });
  const second = await made();
  await dllm.restoreCheckpoint(second.trainer, second.loader, saved);
  await second.trainer.run(second.loader, 2);
  assert.deepEqual(await weights(second.model), await weights(straight.model));
});

test('step by hand, forward, loss', async () => {
  const own = await makeTiny(1);
  const trainer = new dllm.Trainer(own.model, new dllm.Objective('mdlm'), { lr: 5e-3 });
  const before = await trainer.eval(own.loader, { batches: 4 });
  for (let step = 0; step < 10; step++) await trainer.step(await own.loader.next());
  assert(await trainer.eval(own.loader, { batches: 4 }) < before);
  await trainer.accumulate(await own.loader.next());
  assert(await trainer.apply() > 0);
  assert.equal(trainer.metric('step'), 11);
  const logits = (await own.model.forward([1, 2, 3])).tensor('logits');
  assert.deepEqual(logits.shape, [1, 3, own.tokenizer.size]);
  const objective = new dllm.Objective('mdlm');
  const prepared = await objective.prepare(await own.loader.next(), { seed: 7n, model: own.model });
  assert.equal(await objective.loss(own.model, prepared), await objective.loss(own.model, prepared, { seed: 8 }));
});

test('the host may decide', async () => {
  const settings = { steps: 12, gen_length: 12, temperature: 0.8 };
  const [mine, builtin] = [0, 1].map(() => new dllm.Decoder(tiny.model, settings));
  for (const decoder of [mine, builtin]) decoder.start([1, 2], { seed: 3 });
  while (mine.metric('done') === 0) {
    await mine.predict();
    const said = mine.statistics();
    const probability = said.get('probability');
    const best = probability.indexOf(Math.max(...probability));
    mine.commit(0, [said.get('positions')[best]], [said.get('token')[best]]);
  }
  await builtin.run();
  assert.deepEqual(mine.ids(), builtin.ids());
});

test('a source, a URL and a schedule', async () => {
  await tiny.model.save(path.join(folder, 'model'));
  await dllm.Model.load(pathToFileURL(path.join(folder, 'model')), { engine: tiny.engine });
  const files = ['config.json', 'model.safetensors'].map((name) => [name, fs.readFileSync(path.join(folder, 'model', name))]);
  const loaded = await dllm.Model.load(new dllm.Source(Object.fromEntries(files)), { engine: tiny.engine });
  assert.deepEqual(loaded.paramNames(), tiny.model.paramNames());
  const values = new dllm.Schedule('linear').eval([0.25, 0.5]);
  assert(Math.abs(values.alpha[0] - 0.75) < 1e-6);
  assert(Math.abs(dllm.Schedule.table({ t: [0, 1], alpha: [1, 0] }).eval([0.25]).alpha[0] - 0.75) < 1e-6);
});

test('an adapter is added, trained, saved, loaded, scaled and merged', async () => {
  const own = await makeTiny(2);
  const { model } = own;
  const logits = async () => (await model.forward([5, 6, 7, 8])).get('logits');
  const distance = (a, b) => Math.max(...a.map((value, at) => Math.abs(value - b[at])));
  const base = await logits();
  assert.deepEqual(model.adapters(), []);
  await model.addAdapter(undefined, { rank: 2, targets: ['q', 'v'], layers: ['0'] });
  const params = 2 * 2 * (64 + 64);
  assert.deepEqual(model.adapters(),
    [{ name: 'default', kind: 'lora', rank: 2, alpha: 4, rslora: false, dora: false, dropout: 0, modules_to_save: [], scale: 1, modules: 2, params,
      bytes: 4 * params }]);
  assert.deepEqual(await logits(), base);
  await assert.rejects(model.addAdapter(), { code: 'ALREADY_EXISTS' });
  await assert.rejects(model.addAdapter('other', { rang: 2 }), { code: 'NOT_FOUND', hint: 'did you mean rank?' });
  await assert.rejects(model.addAdapter('other', { targets: ['nowhere'] }), { code: 'NOT_FOUND' });
  await assert.rejects(model.addAdapter('a b'), { code: 'INVALID_ARGUMENT' });
  const task = new dllm.Task();
  task.cancel();
  await assert.rejects(model.addAdapter('other', { task }), { code: 'CANCELLED' });
  await assert.rejects(model.addAdapter('other', { signal: AbortSignal.abort() }), { name: 'AbortError' });
  assert.equal(model.adapters().length, 1);
  const trainer = new dllm.Trainer(model, new dllm.Objective('mdlm'), { lr: 1e-2 });
  await trainer.run(own.loader, 3);
  trainer.close();
  const trained = await logits();
  assert(distance(trained, base) > 0);
  const saved = path.join(folder, 'adapter');
  await model.saveAdapter(saved);
  assert.deepEqual(['adapter_config.json', 'adapter_model.safetensors'].filter((name) => !fs.existsSync(path.join(saved, name))), []);
  await assert.rejects(model.saveAdapter(saved), { code: 'ALREADY_EXISTS' });
  await assert.rejects(model.saveAdapter(path.join(folder, 'b'), 'absent'), { code: 'NOT_FOUND' });
  model.removeAdapter();
  assert.deepEqual(model.adapters(), []);
  assert.deepEqual(await logits(), base);
  model.addNetwork(model);
  assert.throws(() => model.addNetwork(model), { code: 'ALREADY_EXISTS' });
  assert.deepEqual(await logits(), base);
  model.removeNetwork();
  assert.throws(() => model.removeNetwork(), { code: 'NOT_FOUND' });
  await model.loadAdapter(pathToFileURL(saved), 'loaded');
  await assert.rejects(model.loadAdapter(saved, 'loaded'), { code: 'ALREADY_EXISTS' });
  await assert.rejects(model.loadAdapter(path.join(folder, 'nowhere')), { code: 'NOT_FOUND' });
  assert.deepEqual(model.adapters().map((adapter) => adapter.name), ['loaded']);
  assert.deepEqual(await logits(), trained);
  for (const wrong of [() => model.removeAdapter(), () => model.setAdapterScale(1), () => model.mergeAdapter('default')]) {
    await assert.rejects(async () => wrong(), { code: 'NOT_FOUND', hint: /loaded/ });
  }
  assert.throws(() => model.setAdapterScale(2e9, 'loaded'), { code: 'INVALID_ARGUMENT' });
  model.setAdapterScale(0, 'loaded');
  assert.equal(model.adapters()[0].scale, 0);
  assert.deepEqual(await logits(), base);
  model.setAdapterScale(1, 'loaded');
  await model.mergeAdapter('loaded');
  assert.deepEqual(model.adapters(), []);
  const merged = await logits();
  assert(distance(merged, trained) < 1e-4 && distance(merged, base) > distance(merged, trained));
  for (const name of ['a', 'b']) await model.addAdapter(name, { rank: 2 });
  await model.mergeAdapter();
  assert.deepEqual(model.adapters(), []);
});

test('log lines, trace, Lua', { skip: !dllm.hasFeature('lua') }, async () => {
  dllm.logTo('queue', 'debug');
  dllm.logTo('none');
  assert(Array.isArray(dllm.logLines()));
  assert.throws(() => dllm.logTo('nowhere'), RangeError);
  const decoder = new dllm.Decoder(tiny.model, { steps: 3, gen_length: 6, trace: true });
  decoder.start();
  await decoder.run();
  assert.equal(decoder.trace().at(-1).step, 3);
  const lua = new dllm.Lua();
  lua.set('n', { a: [1, 2, 3] });
  lua.set('words', dllm.Dataset.of(['one', 'two']));
  assert.deepEqual(await lua.runText('return n.a[3], words:size()'), [3, 2]);
  await assert.rejects(lua.runText("error 'no'", { name: 'mine' }), { code: 'SCRIPT_FAILED' });
});
