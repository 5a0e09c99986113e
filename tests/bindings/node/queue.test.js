// Requests of many callers: their texts, pieces, cancels, errors, limits, closing.
'use strict';
const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const test = require('node:test');
const { setTimeout: sleep } = require('node:timers/promises');
const { setFlagsFromString } = require('node:v8');
const { runInNewContext } = require('node:vm');
const dllm = require('dllm');

const ROOT = path.join(__dirname, '..', '..', '..');
const TABLE = JSON.parse(fs.readFileSync(path.join(ROOT, 'tests/bindings/generate_cases.json'), 'utf8'));
const MODEL = path.join(ROOT, TABLE.model);
const LONG = { length: 200, steps: 200 }; // a request that outlives the calls of a test

let queue;
let generator;
test.before(async () => {
  queue = await dllm.Queue.load(MODEL, { engine: { threads: 1 }, slots: 3 });
  generator = await dllm.load(MODEL, { engine: { threads: 1 } });
});
const left = () => { const { waiting, decoding, over } = queue.describe(); return waiting + decoding + over; };
test.afterEach(() => assert.equal(left(), 0, 'a request is left'));

const submit = ({ call, text, settings }, more = {}) => (call === 'infill'
  ? queue.submit(undefined, { infill: text, ...settings, ...more }) : queue.submit(text, { ...settings, ...more }));

async function piecesOf(ticket) {
  const pieces = [];
  for await (const piece of ticket) pieces.push(piece);
  return pieces;
}

test('texts of many callers are those of the program', async () => {
  const wanted = [0, 1, 2].flatMap(() => TABLE.cases.map(({ expect }) => expect));
  const tickets = await Promise.all(['a', 'b', 'c'].flatMap((client) => TABLE.cases.map((each) => submit(each, { client }))));
  const waits = tickets.map((ticket) => ticket.generation());
  fs.readFileSync(MODEL); // the event loop goes on, and so do its worker threads
  await fs.promises.stat(MODEL);
  assert.deepEqual((await Promise.all(waits)).map(({ whole }) => whole), wanted);
  tickets.forEach((ticket) => ticket.close());
  assert.equal(new Set(tickets.map(({ number }) => number)).size, tickets.length);
});

test('pieces are the text', async () => {
  for (const each of TABLE.cases) {
    const ticket = await submit(each);
    const pieces = await piecesOf(ticket);
    const made = await ticket.generation();
    assert.equal(made.whole, each.expect);
    if (each.call === 'generate') assert.equal(pieces.join(''), made.text);
    assert.deepEqual(await piecesOf(ticket), []);
  }
  for await (const piece of await queue.submit('The sun', LONG)) {
    assert.match(piece.canvas, /<mask/);
    break;
  }
});

test('a cancel ends one request', async () => {
  const [ticket, other] = [await queue.submit('The sun', LONG), await queue.submit('The sun', { length: 8, seed: 2 })];
  setTimeout(() => ticket.cancel(), 20);
  await assert.rejects(ticket.generation(), { code: 'CANCELLED' });
  await assert.rejects(piecesOf(ticket), { code: 'CANCELLED' });
  assert.equal(String(await other.generation()), String(await generator.generate('The sun', { length: 8, seed: 2 })));
  other.cancel();
  assert.equal((await other.generation()).finish, 'full');
  other.close();
  other.close();
  assert.throws(() => other.describe(), { code: 'NOT_FOUND' });
});

test('a signal, a task and a timeout end the wait alone', async () => {
  const ticket = await queue.submit('The sun', LONG);
  await assert.rejects(ticket.generation({ signal: AbortSignal.timeout(10) }), { name: 'TimeoutError' });
  await assert.rejects(ticket.generation({ task: new dllm.Task({ deadline: 10 }) }), { code: 'DEADLINE_EXCEEDED' });
  assert.equal(await ticket.wait({ timeout: 0 }), false);
  assert.equal(await ticket.wait({ timeout: 5 }), false);
  assert.notEqual(ticket.describe().phase, 'over');
  ticket.close();
  await assert.rejects(queue.generate('The sun', { timeout: 0.01, ...LONG }), { code: 'DEADLINE_EXCEEDED' });
  await assert.rejects(queue.generate('The sun', { signal: AbortSignal.timeout(10), ...LONG }), { name: 'TimeoutError' });
});

test('an error of one request leaves the others', async () => {
  const suppress = Int32Array.from({ length: generator.model().get('vocab') }, (_, id) => id);
  const good = await queue.submit('The sun', { length: 8, seed: 1 });
  await assert.rejects(queue.generate('The sun', { length: 8, suppress }), dllm.DllmError);
  assert.equal(String(await good.generation()), String(await generator.generate('The sun', { length: 8, seed: 1 })));
  good.close();
  for (const [settings, code] of [[{ temprature: 1 }, 'NOT_FOUND'], [{ priority: 2000 }, 'INVALID_ARGUMENT'], [{ length: -1 }, 'INVALID_ARGUMENT']]) {
    await assert.rejects(queue.submit('The sun', settings), { code });
  }
  await assert.rejects(queue.submit(5), TypeError);
  await assert.rejects(queue.submit('a', { prompt: 'b' }), TypeError);
  await assert.rejects(dllm.Queue.load(MODEL, { slot: 2 }), { hint: 'did you mean slots?' });
});

test('limits, drain and close', async () => {
  const small = new dllm.Queue(queue.model(), queue.tokenizer(), { slots: 1, waiting: 1, policy: 'random' });
  assert.equal(small.describe().policy, 'random');
  const first = await small.submit('The sun', LONG);
  while (first.describe().phase === 'waiting') await sleep(1);
  const second = await small.submit('The sun', { length: 4 });
  await assert.rejects(small.submit('The sun'), { code: 'RESOURCE_EXHAUSTED' });
  first.close();
  await small.drain();
  assert.equal(await second.wait({ timeout: 0 }), true);
  await assert.rejects(small.submit('The sun'), { code: 'UNAVAILABLE' });
  small.close();
  assert.throws(() => second.text(), dllm.ClosedError);
  await assert.rejects(second.generation(), dllm.ClosedError);
  second.close();
});

test('a ticket that is forgotten removes its request', async () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc');
  await (async () => { await queue.submit('The sun', LONG); })();
  for (let round = 0; round < 1000 && left() > 0; round++) {
    collect();
    await sleep(5);
  }
});
