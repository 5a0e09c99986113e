// Calls of one object that run one after another.
'use strict';
const { controlOf } = require('./call.js');
const { endOf } = require('./task.js');

const PAUSE = 10; // milliseconds between two looks at the task of a call that waits, as the library has

// Resolves after `before`. `signal` and `task` reject it as they would end a call.
function wait(before, { signal, task }) {
  return new Promise((resolve, reject) => {
    const stop = () => end(reject, signal.reason);
    const look = () => {
      const problem = endOf(task);
      if (problem) end(reject, problem);
    };
    const timer = task && setInterval(look, PAUSE);
    function end(settle, value) {
      clearInterval(timer);
      signal?.removeEventListener('abort', stop);
      settle(value);
    }
    before.then(() => end(resolve));
    if (signal?.aborted) stop();
    else signal?.addEventListener('abort', stop, { once: true });
  });
}

class Turns {
  #last = Promise.resolve(); // is over with the calls that were asked for so far
  #open = 0; // calls that run or wait

  // Runs work after the work before it, at once where there is none.
  async take(work, control = {}) {
    controlOf(control);
    const before = this.#last;
    let leave;
    this.#last = new Promise((resolve) => { leave = resolve; });
    this.#open += 1;
    try {
      if (this.#open > 1) await wait(before, control);
      return await work();
    } finally {
      this.#open -= 1;
      before.then(leave);
    }
  }
}

module.exports = { Turns, wait };
