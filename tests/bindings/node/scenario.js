// The ten points of ../scenario.md; ../run_scenario.py compares what this prints.
'use strict';
const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const dllm = require('dllm');
const { makeTiny } = require('./tiny.js');

const MANY = 1_000_000;

// FNV-1a of 64 bits over the ids, four bytes each, low byte first.
function fnv(ids) {
  let value = 0xcbf29ce484222325n;
  for (const byte of new Uint8Array(Int32Array.from(ids).buffer)) {
    value = BigInt.asUintN(64, (value ^ BigInt(byte)) * 0x100000001b3n);
  }
  return value.toString(16).padStart(16, '0');
}

async function version() {
  assert.equal(dllm.abiVersion(), 1);
  assert.match(dllm.version(), /^\d+\.\d+\.\d+$/);
  assert(dllm.names('objective').includes('mdlm'));
}

async function option(tiny) {
  assert.throws(() => new dllm.Decoder(tiny.model, { stepz: 4 }), (problem) => {
    assert(problem instanceof dllm.DllmError);
    assert.equal(problem.code, 'NOT_FOUND');
    assert.match(problem.message, /stepz[^]*steps/);
    return true;
  });
}

async function load(tiny) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'dllm-'));
  try {
    await tiny.model.save(path.join(folder, 'model'));
    const loaded = await dllm.Model.load(path.join(folder, 'model'), { engine: tiny.engine });
    assert.deepEqual(loaded.paramNames(), tiny.model.paramNames());
    for (const name of loaded.paramNames()) {
      assert.deepEqual((await loaded.param(name)).read(), (await tiny.model.param(name)).read(), name);
    }
    const missing = path.join(folder, 'nowhere');
    await assert.rejects(dllm.Model.load(missing, { engine: tiny.engine }),
      (problem) => problem.code === 'NOT_FOUND' && problem.message.includes(missing));
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}

async function encode({ tokenizer }) {
  const text = 'the cat sat on the möön';
  assert.equal(tokenizer.decode(tokenizer.encode(text)), text);
  console.log('encode', fnv(tokenizer.encode('the cat sat on the mat')));
}

// Decodes with a callback, and again step by step; prints the hash.
async function sample(tiny, name, settings = {}) {
  const [pushed, pulled] = [0, 1].map(() => new dllm.Decoder(tiny.model, { steps: 6, gen_length: 12, ...settings }));
  for (const decoder of [pushed, pulled]) decoder.start(tiny.tokenizer.encode('the cat'), { seed: 7 });
  let events = 0;
  await pushed.run({ onEvent: (event) => { events += event.kind === 'decode_step'; } });
  let steps = 0;
  for await (const active of pulled.steps()) steps += active >= 0;
  assert.equal(steps, events);
  assert.deepEqual(pushed.ids(), pulled.ids());
  console.log(name, fnv(pushed.ids()));
}

async function decode(tiny) {
  await sample(tiny, 'fresh');
}

async function train(tiny) {
  const losses = [];
  const trainer = new dllm.Trainer(tiny.model, new dllm.Objective('mdlm'), { lr: 3e-3 });
  await trainer.run(tiny.loader, 10, { onEvent: (event) => { losses.push(event.loss); } });
  assert.equal(losses.length, 10);
  assert(losses[9] < losses[0], String(losses));
  await sample(tiny, 'trained', { temperature: 0.8 });
}

async function cancel(tiny) {
  const trainer = new dllm.Trainer(tiny.model, new dllm.Objective('mdlm'));
  const task = new dllm.Task();
  const run = trainer.run(tiny.loader, MANY, { task });
  const timer = setInterval(() => { if (trainer.metric('step') >= 1) task.cancel(); }, 1);
  await assert.rejects(run, { code: 'CANCELLED' });
  clearInterval(timer);
  const steps = trainer.metric('step');
  await trainer.run(tiny.loader, 1);
  assert.equal(trainer.metric('step'), steps + 1);
}

async function callback(tiny) {
  const mine = new RangeError('mine');
  const decoder = new dllm.Decoder(tiny.model, { steps: 6, gen_length: 12 });
  decoder.start();
  await assert.rejects(decoder.run({ onEvent() { throw mine; } }), (problem) => problem === mine);
  await decoder.run();
  assert.equal(decoder.metric('open'), 0);
}

async function close() {
  const own = await makeTiny(1);
  const decoder = new dllm.Decoder(own.model, { steps: 2, gen_length: 4 });
  own.engine.close();
  own.engine.close();
  own.model.close();
  assert.throws(() => own.model.describe(), dllm.ClosedError);
  decoder.start();
  await decoder.run();
  assert.equal(decoder.ids().length, 4);
  decoder.close();
  await assert.rejects(decoder.step(), { code: 'CLOSED' });
}

async function thousand(tiny) {
  const make = (count) => {
    for (let number = 0; number < count; number++) {
      const made = [new dllm.Batch({ ids: [[number, 1, 2]] }), new dllm.Task(), new dllm.Decoder(tiny.model)];
      for (const object of made) object.close();
    }
  };
  make(100);
  const before = process.memoryUsage.rss();
  make(1000);
  const grown = process.memoryUsage.rss() - before;
  assert(grown < 20e6, String(grown));
}

async function main() {
  const tiny = await makeTiny();
  const points = [version, option, load, encode, decode, train, cancel, callback, close, thousand];
  for (const [index, point] of points.entries()) {
    await point(tiny);
    console.log('point', index + 1, point.name, 'ok');
  }
}

main();
