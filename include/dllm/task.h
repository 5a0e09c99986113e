#ifndef DLLM_TASK_H
#define DLLM_TASK_H
/* dllm/task.h -- cancel and watch a long call from any thread.
 *
 * Pass a task to a long call, and cancel it from another thread or a signal handler:
 *
 *     dllm_task *task = dllm_task_new();
 *     start_thread(watch, task);                        watch: dllm_task_progress, dllm_task_cancel
 *     dllm_trainer_run(trainer, loader, 1000, NULL, NULL, task, err);
 *
 * The call returns DLLM_CANCELLED (or DLLM_DEADLINE_EXCEEDED) and leaves every object in a
 * consistent state. On the CPU the task is checked every few milliseconds of work, for any size of
 * model and text. A call returns within 50 ms on cores that are free for it. A cancelled task stays
 * cancelled: create a new task for the next call. A cancelled call finishes four things first:
 *
 *     - an update of weights that has begun (dllm/trainer.h)
 *     - the checkpoint that a cancelled run with the option root writes
 *     - the removal of the files that a cancelled save had written
 *     - one collection of garbage of a script with a large heap
 *
 * Four functions have no task and cannot be cancelled. A host that must stay responsive calls them
 * on another thread. Their processor time on one core of an AMD EPYC:
 *
 *     dllm_tokenizer_load      0.6 s     vocabulary of 150,000 (14 MiB of JSON)
 *     dllm_trainer_new         2 s       100 million parameters
 *     dllm_model_set_param     50 ms     25 million numbers
 *     dllm_dataset_add         60 ms     1 MiB of text
 *
 * Lifetime   a call keeps its task until it returns, also when the task is released meanwhile.
 * Threads    every function here may be called from any thread.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/** Creates a task that is not cancelled and has no deadline.
 *
 * Returns  a new task; NULL when out of memory
 * Owns     caller owns result
 * Threads  any
 * Since    1
 */
DLLM_API dllm_task *dllm_task_new(void);

/** Releases a task.
 *
 *   task   NULL: does nothing
 *
 * Returns  nothing
 * Owns     releases task
 * Threads  any
 * Since    1
 */
DLLM_API void dllm_task_release(dllm_task *task);

/** Requests the calls that use this task to stop; safe inside a signal handler.
 *
 *   task   NULL: does nothing
 *
 * Returns  nothing
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API void dllm_task_cancel(dllm_task *task);

/** Returns whether dllm_task_cancel was called or the deadline has passed.
 *
 *   task   NULL: 0
 *
 * Returns  1 or 0
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API int32_t dllm_task_is_cancelled(const dllm_task *task);

/** Sets a deadline counted from now.
 *
 *   task           NULL: does nothing
 *   milliseconds   0 or more; 0: at once; a negative number removes the deadline
 *
 * Returns  nothing
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API void dllm_task_set_deadline(dllm_task *task, int64_t milliseconds);

/** Reads the progress of the running call.
 *
 *   task        NULL: both outs get 0
 *   out_done    NULL, or gets the units of work done: bytes, steps or records, see the call
 *   out_total   NULL, or gets the units in all; 0: not known yet
 *
 * Returns  nothing
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API void dllm_task_progress(const dllm_task *task, int64_t *out_done, int64_t *out_total);

#ifdef __cplusplus
}
#endif
#endif
