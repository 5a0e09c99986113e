// What only Node has: the event loop, AbortSignal, async iterators, dispose, finalizers, threads, the end of a process.
'use strict';
const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const path = require('node:path');
const test = require('node:test');
const { pathToFileURL } = require('node:url');
const { setFlagsFromString } = require('node:v8');
const { Worker } = require('node:worker_threads');
const dllm = require('dllm');
const { makeTiny } = require('./tiny.js');

const MANY = 1_000_000_000;
const PACKAGE = path.dirname(require.resolve('dllm'));
let tiny;

test.before(async () => { tiny = await makeTiny(1); });

const makeTrainer = () => new dllm.Trainer(tiny.model, new dllm.Objective('mdlm'));
function makeDecoder(settings) {
  const decoder = new dllm.Decoder(tiny.model, { steps: 6, gen_length: 12, ...settings });
  decoder.start(tiny.tokenizer.encode('the cat'), { seed: 7 });
  return decoder;
}

// Resolves after this many rounds of the event loop in which `ready` held.
async function ticks(count, ready = () => true) {
  for (let seen = 0; seen < count;) {
    await new Promise((resolve) => { setImmediate(resolve); });
    if (ready()) seen++;
  }
}

test('the event loop goes on while training runs, with a callback and without', async () => {
  for (const onEvent of [undefined, () => {}]) {
    const abort = new AbortController();
    const trainer = makeTrainer();
    let ended = false;
    const run = trainer.run(tiny.loader, MANY, { signal: abort.signal, onEvent }).finally(() => { ended = true; });
    const rejected = assert.rejects(run, { name: 'AbortError' });
    await ticks(100, () => trainer.metric('step') > 0);
    assert.equal(ended, false);
    abort.abort();
    await rejected;
    const steps = trainer.metric('step');
    await trainer.run(tiny.loader, 2);
    assert.equal(trainer.metric('step'), steps + 2);
  }
});

test('an AbortSignal rejects with its reason', async () => {
  const mine = new Error('mine');
  const abort = new AbortController();
  const run = makeTrainer().run(tiny.loader, MANY, { signal: abort.signal, onEvent: () => abort.abort(mine) });
  await assert.rejects(run, (problem) => problem === mine);
  const decoder = makeDecoder();
  await assert.rejects(decoder.step({ signal: AbortSignal.abort(mine) }), (problem) => problem === mine);
  assert.equal(decoder.metric('steps'), 0);
  await assert.rejects(makeTrainer().run(tiny.loader, MANY, { signal: AbortSignal.timeout(20) }), { name: 'TimeoutError' });
});

test('a task has a deadline and the progress', async () => {
  assert.ok(new dllm.Task({ deadline: -5 }).cancelled);
  assert.ok(!new dllm.Task({ deadline: Infinity }).cancelled);
  assert.throws(() => new dllm.Task({ deadline: NaN }), TypeError);
  const task = new dllm.Task({ deadline: 600_000 });
  const late = makeTrainer().run(tiny.loader, MANY, { task, onEvent: () => task.setDeadline(1) });
  await assert.rejects(late, { code: 'DEADLINE_EXCEEDED' });
  assert.equal(task.progress().total, MANY);
  assert.equal(task.cancelled, true);
});

test('for await over steps, left early and gone on', async () => {
  const decoder = makeDecoder();
  const seen = [];
  for await (const active of decoder.steps()) {
    seen.push(active);
    if (seen.length === 2) break;
  }
  for await (const active of decoder.steps()) seen.push(active);
  const whole = makeDecoder();
  await whole.run();
  assert.deepEqual(decoder.ids(), whole.ids());
  assert.equal(seen.at(-1), 0);
});

test('a callback may stop a run, may not be async, and throws any value', async () => {
  let steps = 0;
  const trainer = makeTrainer();
  await trainer.run(tiny.loader, MANY, { onEvent: () => (++steps === 3 ? dllm.STOP : undefined) });
  assert.equal(trainer.metric('step'), 3);
  await assert.rejects(trainer.run(tiny.loader, 1, { onEvent: async () => {} }), TypeError);
  await assert.rejects(trainer.run(tiny.loader, 1, { onEvent: 7 }), TypeError);
  await assert.rejects(trainer.run(tiny.loader, 1, { onEvent() { throw undefined; } }), (problem) => problem === undefined);
  await trainer.run(tiny.loader, 2, { onEvent: () => trainer.set('lr', 1e-4) });
  assert.equal(trainer.metric('lr'), Math.fround(1e-4));
});

test('one object does one thing at a time, two objects two', async () => {
  const decoder = makeDecoder();
  const first = decoder.run();
  await assert.rejects(decoder.step(), { code: 'FAILED_PRECONDITION', message: /another call runs on this decoder/ });
  assert.throws(() => decoder.start(), { code: 'FAILED_PRECONDITION' });
  assert.equal(typeof decoder.metric('open'), 'number');
  const other = makeDecoder();
  await Promise.all([first, other.run({ onEvent() {} })]);
  assert.deepEqual(decoder.ids(), other.ids());
});

test('dispose closes, also in the middle of a call', async () => {
  const decoder = makeDecoder();
  const run = decoder.run();
  decoder[Symbol.dispose]();
  assert.equal(decoder.closed, true);
  decoder.close();
  await run;
  await assert.rejects(decoder.run(), { code: 'CLOSED' });
  await assert.rejects(decoder.run(), { code: 'CLOSED' }); // refused once more, and not released once more
  assert.throws(() => decoder.ids(), (problem) => problem instanceof dllm.ClosedError && problem.code === 'CLOSED');
});

test('the garbage collector frees what was not closed, and not what a call uses', async () => {
  setFlagsFromString('--expose-gc');
  const collect = require('node:vm').runInNewContext('gc');
  const { lib } = require(path.join(PACKAGE, 'lib/library.js'));
  const release = lib.dllm_batch_release;
  let released = 0;
  lib.dllm_batch_release = (pointer) => { released++; release(pointer); };
  const running = (() => makeDecoder({ steps: 12 }).run())();
  (() => { for (let i = 0; i < 100; i++) new dllm.Batch({ ids: [[i]] }); })();
  for (let round = 0; round < 50 && released < 90; round++) {
    collect();
    await ticks(1);
  }
  lib.dllm_batch_release = release;
  assert(released >= 90, `${released} of 100`);
  await running;
});

test('import and require give the same objects', async () => {
  const module = await import(pathToFileURL(path.join(PACKAGE, 'index.mjs')).href);
  assert.deepEqual(Object.keys(module).sort(), Object.keys(dllm).sort());
  for (const name of Object.keys(dllm)) assert.equal(module[name], dllm[name], name);
});

test('a Worker has the library too', async () => {
  const worker = new Worker(`
    const dllm = require('dllm');
    require('node:worker_threads').parentPort.postMessage(dllm.names('objective').includes('mdlm'));`, { eval: true });
  assert.equal(await new Promise((resolve, reject) => { worker.on('message', resolve).on('error', reject); }), true);
});

// A process that ends while a run is on its way ends, with its own status.
for (const [what, code, status] of [
  ['exit', 'setTimeout(() => process.exit(3), 100); trainer.run(tiny.loader, 1e9)', 3],
  ['exit with a callback', 'setTimeout(() => process.exit(3), 100); trainer.run(tiny.loader, 1e9, { onEvent() {} })', 3],
  // The thread of the callback may still load native code then, or read an event.
  ...[0, 3, 6, 10, 15, 25, 40, 60, 130, 170, 210, 250, 290].map((delay) => [`exit after ${delay} ms`,
    `setTimeout(() => process.exit(3), ${delay}); trainer.run(tiny.loader, 1e9, { onEvent() {} })`, 3]),
  ['an error while the thread loads',
    'setTimeout(() => { throw new Error() }, 10); trainer.run(tiny.loader, 1e9, { onEvent() {} })', 1],
  ['exit in a callback', 'trainer.run(tiny.loader, 1e9, { onEvent() { process.exit(4); } })', 4],
  ['an uncaught error', 'setTimeout(() => { throw new Error() }, 100); trainer.run(tiny.loader, 1e9, { onEvent() {} })', 1],
]) {
  test(`a process ends: ${what}`, async () => {
    const script = `const dllm = require('dllm');
      require(${JSON.stringify(path.join(__dirname, 'tiny.js'))}).makeTiny(1).then((tiny) => {
        const trainer = new dllm.Trainer(tiny.model, new dllm.Objective('mdlm')); ${code}; });`;
    const ended = await new Promise((resolve) => {
      execFile(process.execPath, ['-e', script], { timeout: 60_000 }, (problem) => resolve(problem));
    });
    assert.deepEqual([ended.code, ended.signal], [status, null]);
  });
}
