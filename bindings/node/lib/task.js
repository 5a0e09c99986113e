// Cancel and watch a long call.
'use strict';
const { lib } = require('./library.js');
const { Managed } = require('./managed.js');

// Pass it to a long call as `task`, then cancel(): the call rejects with CANCELLED. A cancelled task stays cancelled.
// An AbortSignal does the same; a task also has a deadline and the progress.
class Task extends Managed {
  static noun = 'task';
  static release = 'dllm_task_release';

  // deadline: milliseconds from now, after which calls reject with DEADLINE_EXCEEDED.
  constructor({ deadline } = {}) {
    super(lib.dllm_task_new());
    if (deadline !== undefined) this.setDeadline(deadline);
  }

  cancel() {
    lib.dllm_task_cancel(this.pointer);
  }

  get cancelled() {
    return lib.dllm_task_is_cancelled(this.pointer) !== 0;
  }

  // Milliseconds from now; null removes the deadline.
  setDeadline(milliseconds) {
    lib.dllm_task_set_deadline(this.pointer, milliseconds === null ? -1 : Math.trunc(milliseconds));
  }

  // {done, total} of the running call; total 0: not known yet.
  progress() {
    const done = new BigInt64Array(1);
    const total = new BigInt64Array(1);
    lib.dllm_task_progress(this.pointer, done, total);
    return { done: Number(done[0]), total: Number(total[0]) };
  }
}

module.exports = { Task };
