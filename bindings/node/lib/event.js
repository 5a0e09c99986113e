// Calls that send events: each runs on a thread of its own, and the host's function on the thread that called.
//
// A koffi callback out of an async call waits for the event loop, and would wait for ever in a process that ends
// meanwhile. A worker of Node is ended with the process, and its wait with it.
'use strict';
const path = require('node:path');
const { SHARE_ENV, Worker } = require('node:worker_threads');
const raw = require('./raw.js');

// What the answer's place holds until the host's function has returned.
const WAITING = -1;
// Places of the memory that a thread shares with this one.
const ANSWER = 0;
const LOADED = 1; // 0 until the thread has loaded koffi and the library
const idle = [];
const threads = [];

// A thread that is ended while it loads native code takes the process down with SIGABRT: the end of the process waits
// for it, a tenth of a second on an idle machine.
function waitForLoading() {
  for (const thread of threads) Atomics.wait(thread.shared, LOADED, 0, 30_000);
}

// A thread that makes one call at a time; kept for the next one.
class EventThread {
  constructor() {
    this.shared = new Int32Array(new SharedArrayBuffer(2 * Int32Array.BYTES_PER_ELEMENT));
    this.shared[ANSWER] = WAITING;
    if (threads.length === 0) process.on('exit', waitForLoading);
    threads.push(this);
    this.worker = new Worker(path.join(__dirname, 'event_thread.js'),
      { env: SHARE_ENV, workerData: { shared: this.shared.buffer } });
    this.worker.once('exit', () => Atomics.store(this.shared, LOADED, 1)); // it could not load
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
      return said === undefined || said === null ? raw.CONTINUE : Number(said);
    } catch (reason) {
      failure = { reason };
      return raw.FAIL;
    }
  };
  const status = await (idle.pop() ?? new EventThread()).call(name, values, callback, answerTo);
  if (failure) throw failure.reason;
  return status;
}

module.exports = { ANSWER, LOADED, WAITING, callWithEvents };
