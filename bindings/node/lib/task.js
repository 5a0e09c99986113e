// Cancel and watch a long call.
'use strict';
const raw = require('./raw.js');
const { lib } = require('./library.js');
const { ClosedError, DllmError } = require('./errors.js');
const { only } = require('./given.js');
const { Managed } = require('./managed.js');
const { shown } = require('./values.js');

// Pass it to a long call as `task`, then cancel(): the call rejects with CANCELLED. A cancelled task stays cancelled.
// An AbortSignal does the same; a task also has a deadline and the progress.
class Task extends Managed {
  static noun = 'task';
  static release = 'dllm_task_release';

  // deadline: milliseconds from now, after which calls reject with DEADLINE_EXCEEDED.
  constructor(given) {
    const { deadline } = only(given, ['deadline']);
    super(lib.dllm_task_new());
    if (deadline !== undefined) this.setDeadline(deadline);
  }

  cancel() {
    lib.dllm_task_cancel(this.pointer);
  }

  get cancelled() {
    return lib.dllm_task_is_cancelled(this.pointer) !== 0;
  }

  // Milliseconds from now; 0 and less: it has passed already; null and Infinity remove the deadline.
  setDeadline(milliseconds) {
    if (milliseconds !== null && (typeof milliseconds !== 'number' || Number.isNaN(milliseconds))) {
      throw new TypeError(`a deadline is a number of milliseconds or null, not ${shown(milliseconds)}`);
    }
    const none = milliseconds === null || milliseconds === Infinity;
    const whole = Math.min(Math.max(0, Math.trunc(milliseconds)), Number.MAX_SAFE_INTEGER);
    lib.dllm_task_set_deadline(this.pointer, none ? -1 : whole);
  }

  // {done, total} of the running call; total 0: not known yet.
  progress() {
    const done = new BigInt64Array(1);
    const total = new BigInt64Array(1);
    lib.dllm_task_progress(this.pointer, done, total);
    return { done: Number(done[0]), total: Number(total[0]) };
  }
}

// What a call with this task would reject with; null while it may go on.
function endOf(task) {
  if (task.closed) return new ClosedError('task');
  if (!task.cancelled) return null;
  // Without its deadline a task is cancelled only by a cancel. The deadline is back before the next look.
  lib.dllm_task_set_deadline(task.pointer, -1);
  const wasCancelled = task.cancelled;
  lib.dllm_task_set_deadline(task.pointer, 0);
  return wasCancelled ? new DllmError('the task was cancelled', { status: raw.CANCELLED })
    : new DllmError("the task's deadline has passed", { status: raw.DEADLINE_EXCEEDED });
}

module.exports = { Task, endOf };
