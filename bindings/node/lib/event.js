// Calls that send events: each runs on a thread of its own, and the host's function on the thread that called.
//
// A koffi callback out of an async call waits for the event loop, and would wait for ever in a process that ends
// meanwhile. A worker of Node is ended with the process. Inside of koffi that would be an abort, so the end of the
// process waits until the worker has left it.
'use strict';
const path = require('node:path');
const { SHARE_ENV, Worker } = require('node:worker_threads');
const raw = require('./raw.js');

// What a callback returns. Numbers would be returned by accident, as list.push does.
const CONTINUE = Symbol('dllm.CONTINUE');
const STOP = Symbol('dllm.STOP');
const ANSWERS = new Map([[undefined, raw.CONTINUE], [null, raw.CONTINUE], [CONTINUE, raw.CONTINUE], [STOP, raw.STOP]]);

// What the answer's place holds until the host's function has returned.
const WAITING = -1;
// Places of the memory that a thread shares with this one.
const ANSWER = 0;
const LOADED = 1; // 0 until the thread has loaded koffi and the library
const BUSY = 2; // 1 from the call's message until the call has returned
const ENDING = 3; // 1: the process ends, events are answered with STOP
const PLACES = 4;
const idle = [];
const threads = [];

// A thread that is ended while it loads or calls native code takes the process down with SIGABRT. The tasks of the calls
// are cancelled before (call.js), so this takes as long as a cancel; loading takes a tenth of a second.
function leaveNativeCode() {
  for (const { shared } of threads) {
    Atomics.store(shared, ENDING, 1);
    Atomics.store(shared, ANSWER, raw.STOP);
    Atomics.notify(shared, ANSWER);
  }
  for (const { shared } of threads) {
    Atomics.wait(shared, LOADED, 0, 30_000);
    Atomics.wait(shared, BUSY, 1, 30_000);
  }
}

// A thread that makes one call at a time; kept for the next one.
class EventThread {
  constructor() {
    this.shared = new Int32Array(new SharedArrayBuffer(PLACES * Int32Array.BYTES_PER_ELEMENT));
    this.shared[ANSWER] = WAITING;
    if (threads.length === 0) process.on('exit', leaveNativeCode);
    threads.push(this);
    this.worker = new Worker(path.join(__dirname, 'event_thread.js'),
      { env: SHARE_ENV, workerData: { shared: this.shared.buffer } });
  }

  // Resolves to the status of the call; onEvent gives the answer to each event.
  call(name, values, callback, onEvent) {
    const { shared, worker } = this;
    return new Promise((resolve, reject) => {
      worker.ref();
      worker.on('error', reject);
      worker.on('message', ({ event, status, outs }) => {
        if (event) {
          Atomics.store(shared, ANSWER, onEvent(event));
          Atomics.notify(shared, ANSWER);
          return;
        }
        for (const [index, out] of outs) values[index].set(out);
        worker.removeAllListeners('message');
        worker.removeAllListeners('error');
        worker.unref();
        idle.push(this);
        resolve(status);
      });
      Atomics.store(shared, BUSY, 1);
      worker.postMessage({ name, values, callback });
    });
  }
}

// Makes a call whose value number `callback` is the event function. What onEvent throws is what the Promise
// rejects with.
async function callWithEvents(name, values, callback, onEvent) {
  let failure = null;
  const answerTo = (event) => {
    try {
      const said = onEvent(event);
      if (typeof said?.then === 'function') {
        throw new TypeError('onEvent returned a Promise: it is called between two steps and cannot be awaited');
      }
      if (!ANSWERS.has(said)) throw new TypeError(`onEvent returns nothing or dllm.STOP, not ${String(said)}`);
      return ANSWERS.get(said);
    } catch (reason) {
      failure = { reason };
      return raw.FAIL;
    }
  };
  const status = await (idle.pop() ?? new EventThread()).call(name, values, callback, answerTo);
  if (failure) throw failure.reason;
  return status;
}

module.exports = { ANSWER, BUSY, CONTINUE, ENDING, LOADED, STOP, WAITING, callWithEvents };
