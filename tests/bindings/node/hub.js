// The nine points of ../run_hub.py.
'use strict';
const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const dllm = require('dllm');

const NAME = 'tester/tiny';

async function pullWithProgress() {
  const task = new dllm.Task();
  const folder = await dllm.pull(NAME, { attempts: 2, task });
  const { done, total } = task.progress();
  assert.ok(fs.existsSync(path.join(folder, 'config.json')) && done === total && total > 320_000, `${folder}, ${done} of ${total}`);
  return folder;
}

async function whatTheCacheHas(folder) {
  const plan = await dllm.hub.describe(NAME);
  assert.deepEqual([plan.name, plan.missing, plan.files.length, plan.path], [NAME, 0, 3, folder]);
  assert.ok(plan.files[2].cached && plan.files[2].weights && plan.free > 0, JSON.stringify(plan));
  const all = await dllm.hub.list();
  assert.deepEqual(all.map((one) => [one.name, one.kind]), [[NAME, 'model']]);
  const [{ files, revisions, path: place }] = all[0].snapshots;
  assert.deepEqual([files, revisions, place], [3, ['main'], folder]);
  assert.ok(all[0].used > 1e9, all[0].used);
  const report = await dllm.hub.verify(NAME);
  assert.deepEqual([report.files, report.checked, report.faults], [3, 1, []]);
}

async function whatFails(folder) {
  await assert.rejects(dllm.pull('tester/tin'), { code: 'NOT_FOUND', message: /the hub has no model tester\/tin/ });
  assert.equal(await dllm.pull(NAME, { offline: true }), folder);
  await assert.rejects(dllm.pull('tester/none', { offline: true }), /not in the cache/);
  await assert.rejects(dllm.pull(NAME, { endpoint: 'http://127.0.0.1:1' }), /endpoint/);
}

async function cancel() {
  const begin = Date.now();
  await assert.rejects(dllm.pull('tester/slow', { signal: AbortSignal.timeout(500) }), { name: 'TimeoutError' });
  const task = new dllm.Task();
  setTimeout(() => task.cancel(), 300);
  await assert.rejects(dllm.pull('tester/slow', { task }), { code: 'CANCELLED' });
  assert.ok(Date.now() - begin < 10_000, `the cancelled pulls took ${Date.now() - begin} ms`);
}

async function remove() {
  const { freed } = await dllm.hub.remove(NAME);
  assert.ok(freed > 320_000, `${freed} bytes were freed`);
  await assert.rejects(dllm.hub.remove(NAME), { code: 'NOT_FOUND' });
}

(async () => {
  const folder = await pullWithProgress();
  await whatTheCacheHas(folder);
  await whatFails(folder);
  await cancel();
  await remove();
})();
