// A text while it is decided, step by step.
'use strict';
const raw = require('./raw.js');
const { DllmError } = require('./errors.js');
const { Generation } = require('./generation.js');

// What one denoising step added; String() of it is the text.
class Piece {
  constructor(text, canvas, { open, steps }) {
    this.text = text; // final text that is new; all of them together are the text of the generation
    this.canvas = canvas; // the whole text, with <mask:N> for N open positions
    this.open = open; // positions that are not decided
    this.step = steps; // steps taken so far
    Object.freeze(this);
  }

  toString() {
    return this.text;
  }
}

// The requests of streams that the collector takes.
const lost = new FinalizationRegistry(({ calls, request }) => calls.forget(request));

// for await (const piece of stream): one piece for each step, which runs on a worker thread. A loop that is left early
// and close() remove the request, and so do the collector and a step that fails or is cancelled.
class Stream {
  #calls; // {add, step, forget} of the generator, for this request
  #request = null; // its number, from the first piece on
  #isOver = false;
  #generation = null;
  #last = Promise.resolve(); // the last of its calls

  constructor(calls) {
    this.#calls = calls;
  }

  // The whole answer, after the last piece.
  get generation() {
    if (this.#generation) return this.#generation;
    throw new DllmError('the stream has no generation before its last piece',
      { status: raw.FAILED_PRECONDITION, hint: 'take all pieces first: for await (const piece of stream)' });
  }

  next() {
    return this.#inTurn(() => this.#take());
  }

  async return(value) {
    await this.close();
    return { value, done: true };
  }

  // Removes the request: now, or after the calls that run and wait. The pieces end.
  close() {
    return this.#inTurn(() => this.#remove());
  }

  // await using stream = generator.stream('Hi'): the end of the block removes the request.
  [Symbol.asyncDispose]() {
    return this.close();
  }

  // Calls that are not awaited run one after another.
  #inTurn(work) {
    const mine = this.#last.then(work);
    this.#last = mine.catch(() => {});
    return mine;
  }

  async #take() {
    if (this.#isOver) return { value: undefined, done: true };
    try {
      if (this.#request === null) {
        this.#request = await this.#calls.add();
        lost.register(this, { calls: this.#calls, request: this.#request }, this);
      }
      const { text, canvas, about } = await this.#calls.step(this.#request);
      if (about.finish !== 'open') {
        this.#generation = new Generation(about);
        this.#remove();
      }
      return { value: new Piece(text, canvas, about), done: false };
    } catch (problem) {
      this.#remove();
      throw problem;
    }
  }

  #remove() {
    const request = this.#request;
    this.#isOver = true;
    this.#request = null;
    if (request === null) return;
    lost.unregister(this);
    this.#calls.forget(request);
  }

  [Symbol.asyncIterator]() {
    return this;
  }
}

module.exports = { Piece, Stream };
