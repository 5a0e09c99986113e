#ifndef DLLM_EVENT_H
#define DLLM_EVENT_H
/* dllm/event.h -- the argument of a callback.
 *
 * A callback reads an event by key, so events can grow without a new symbol:
 *
 *     static int32_t show(const dllm_event *event, void *user_data) {
 *       double loss;
 *       if (dllm_event_kind(event) != DLLM_EVENT_TRAIN_STEP) return DLLM_CONTINUE;
 *       dllm_event_f64(event, "loss", &loss, NULL);
 *       return loss < 1.0 ? DLLM_STOP : DLLM_CONTINUE;
 *     }
 *
 * The keys of each kind; s: text, i: int64, f: double, a: array of int32, c: array of float:
 *
 *     PROGRESS      what s, done i, total i
 *     TRAIN_STEP    step i, loss f, grad_norm f, lr f, tokens i, tokens_per_second f, mfu f
 *                   memory i                     bytes
 *                   compiles i, skipped i
 *                   checkpoint_stall_seconds f   training stood still for saves
 *                   input_wait f                 seconds that the step waited for its batches
 *                   rank_wait f                  seconds that one rank waited for slower
 *                                                ranks, the longest wait
 *                   run_seconds f                time of the whole run
 *                   nll f                        when the objective has one
 *                   time_losses c, time_rows c, time_shares c
 *                                                at some steps of objectives that choose their
 *                                                times: averages, rows and shares of equal parts
 *                                                of the times from 0 to 1
 *     EVAL          step i, loss f
 *                   stderr f                     of the loss, over rows that differ; absent for
 *                                                fewer than two of them
 *                   bits_per_byte f              when the size of the text is known and the
 *                                                loss bounds a likelihood (mdlm, bd3lm,
 *                                                uniform, ar in their usual norms)
 *     DECODE_STEP   slot i, block i, step i, nfe i, open i, ids a, states a, confidence c
 *                   changed a                    positions that a display must draw again:
 *                                                their id or state differs from the slot's
 *                                                previous event, or from the added canvas
 *     BLOCK         slot i, block i, begin i, end i, ids a
 *     TEXT          request i, step i, open i
 *                   text s                       final text that is new since the last event
 *                   canvas s                     all positions, <mask:N> for N open ones
 *     ANSWER        request i, finish s, prompt_tokens i, completion_tokens i, steps i, nfe i
 *                   completion s                 absent when the request failed
 *                   error s                      why the request failed
 *     CHECKPOINT    step i, dir s
 *                   stall_seconds f              training stood still for this save
 *
 * CHECKPOINT is sent when the checkpoint is on disk. A checkpoint that is written in the background
 * is on disk some steps later.
 *
 * Lifetime   the event and the arrays read from it are valid until the callback returns.
 * Threads    the thread that runs the callback.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/** Returns the kind of the event.
 *
 *   event   NULL: 0
 *
 * Returns  one of DLLM_EVENT_PROGRESS to DLLM_EVENT_ANSWER; later versions may add others
 * Owns     nothing
 * Threads  callback
 * Since    1
 */
DLLM_API int32_t dllm_event_kind(const dllm_event *event);

/** Reads a whole number.
 *
 *   event   not NULL
 *   key     not NULL
 *   out     not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND when the event has no such key, the hint names the nearest;
 *          DLLM_INVALID_ARGUMENT when the value is not a whole number
 * Owns     nothing
 * Threads  callback
 * Since    1
 */
DLLM_API dllm_status dllm_event_i64(const dllm_event *event, const char *key, int64_t *out,
                                    dllm_error *err);

/** Reads a real number; whole numbers are converted.
 *
 *   event   not NULL
 *   key     not NULL
 *   out     not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND; DLLM_INVALID_ARGUMENT, as dllm_event_i64
 * Owns     nothing
 * Threads  callback
 * Since    1
 */
DLLM_API dllm_status dllm_event_f64(const dllm_event *event, const char *key, double *out,
                                    dllm_error *err);

/** Reads a text.
 *
 *   event   NULL: NULL
 *   key     NULL: NULL
 *
 * Returns  text; NULL when there is no such key or its value is not a text
 * Owns     result is valid until the callback returns
 * Threads  callback
 * Since    1
 */
DLLM_API const char *dllm_event_str(const dllm_event *event, const char *key);

/** Reads an array of whole numbers.
 *
 *   event       NULL: NULL
 *   key         NULL: NULL
 *   out_count   NULL, or gets the number of elements
 *
 * Returns  the first element, not NULL even for an empty array; NULL when there is no such key or
 *          its value is not such an array; out_count is not changed then
 * Owns     result is valid until the callback returns
 * Threads  callback
 * Since    1
 */
DLLM_API const int32_t *dllm_event_i32s(const dllm_event *event, const char *key,
                                        int64_t *out_count);

/** Reads an array of real numbers.
 *
 *   event       NULL: NULL
 *   key         NULL: NULL
 *   out_count   NULL, or gets the number of elements
 *
 * Returns  the first element, as dllm_event_i32s
 * Owns     result is valid until the callback returns
 * Threads  callback
 * Since    1
 */
DLLM_API const float *dllm_event_f32s(const dllm_event *event, const char *key, int64_t *out_count);

/** Writes the whole event as a JSON object; "event" is its name in lower case.
 *
 *   event   not NULL
 *   out     not NULL
 *
 * Returns  DLLM_OK
 * Owns     nothing
 * Threads  callback
 * Since    1
 */
DLLM_API dllm_status dllm_event_describe(const dllm_event *event, dllm_buffer *out,
                                         dllm_error *err);

#ifdef __cplusplus
}
#endif
#endif
