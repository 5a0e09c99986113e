// One request of a queue.
'use strict';
const { controlOf } = require('./call.js');
const { Generation } = require('./generation.js');
const { CONTROL, only } = require('./given.js');
const { Piece } = require('./stream.js');
const { wait } = require('./turns.js');
const { shown } = require('./values.js');

// The requests of tickets that the collector takes.
const lost = new FinalizationRegistry((calls) => removeNow(calls));

// A queue forgets requests that are over, when there are many.
function removeNow(calls) {
  try {
    calls.remove();
  } catch (problem) {
    if (problem.code !== 'NOT_FOUND') throw problem;
  }
}

function timeoutOf(timeout = Infinity) {
  if (typeof timeout === 'number' && !Number.isNaN(timeout)) return timeout;
  throw new TypeError(`a timeout is a number of milliseconds, not ${shown(timeout)}`);
}

// Resolves after a change, or after this time.
async function changeWithin(calls, milliseconds, control) {
  if (milliseconds === Infinity) return wait(calls.changed(), control);
  let timer;
  const late = new Promise((resolve) => { timer = setTimeout(resolve, Math.min(milliseconds, 2 ** 31 - 1)); });
  try {
    return await wait(Promise.race([calls.changed(), late]), control);
  } finally {
    clearTimeout(timer);
  }
}

// A request that queue.submit has taken. for await (const piece of ticket) gives what is new each time that it has changed. The
// end of the loop, close(), `using` and the collector remove the request.
class Ticket {
  #calls; // of the queue, for this request
  #seen = 1; // version of the last piece; 1 is that of a request before its first step
  #isClosed = false;
  #generation = null; // after the last piece
  #last = Promise.resolve(); // the last call of next

  constructor(calls) {
    this.#calls = calls;
    lost.register(this, calls, this);
  }

  // The number of the request, which no other request of the queue has.
  get number() {
    return this.#calls.number;
  }

  // Resolves to whether the request is over: when it is, or after timeout milliseconds.
  async wait(given) {
    const { timeout, ...control } = only(given, ['timeout', ...CONTROL]);
    controlOf(control);
    return this.#generation !== null || this.#change(Infinity, timeoutOf(timeout), control);
  }

  // Resolves when the version is above `seen`, the request is over, or the time is up: to whether it is over.
  async #change(seen, timeout, control) {
    const end = performance.now() + timeout;
    for (;;) {
      const { version, isOver } = this.#calls.look();
      const left = end - performance.now();
      if (isOver || version > seen || left <= 0) return isOver;
      await changeWithin(this.#calls, left, control);
    }
  }

  // A part of the text, as of the last complete step: completion, text, next or canvas. Throws the error of a request that failed.
  text(part = 'completion') {
    return this.#calls.text(part);
  }

  // The request: what generator.describe has, and phase, version, seconds_waited, ...
  describe() {
    return this.#calls.describe();
  }

  // Resolves to the answer at the end of the request. Rejects with its error: CANCELLED, DEADLINE_EXCEEDED after its timeout,
  // or that of a step. signal and task end the wait alone.
  async generation(control) {
    await this.wait(controlOf(control));
    if (this.#generation) return this.#generation;
    this.text();
    return new Generation(this.describe());
  }

  // Ends the request: whoever reads it gets CANCELLED. One that is over stays as it is.
  cancel() {
    this.#calls.cancel();
  }

  // Removes the request, and cancels it where it is not over. The pieces end.
  close() {
    if (this.#isClosed) return;
    this.#isClosed = true;
    lost.unregister(this);
    removeNow(this.#calls);
  }

  [Symbol.dispose]() {
    this.close();
  }

  // Calls that are not awaited run one after another.
  next() {
    const mine = this.#last.then(() => this.#take());
    this.#last = mine.catch(() => {});
    return mine;
  }

  async return(value) {
    this.close();
    return { value, done: true };
  }

  async #take() {
    if (this.#isClosed) return { value: undefined, done: true };
    try {
      await this.#change(this.#seen, Infinity, {});
      const about = this.describe(); // before the text, which is then not older
      const piece = new Piece(this.text('next'), this.text('canvas'), about);
      this.#seen = about.version;
      if (about.phase === 'over') {
        this.#generation = new Generation(about);
        this.close();
      }
      return { value: piece, done: false };
    } catch (problem) {
      this.close();
      throw problem;
    }
  }

  [Symbol.asyncIterator]() {
    return this;
  }
}

module.exports = { Ticket };
