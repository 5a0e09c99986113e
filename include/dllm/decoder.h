#ifndef DLLM_DECODER_H
#define DLLM_DECODER_H
/* dllm/decoder.h -- decode text step by step.
 *
 * A decoder holds slots, one per request. Make it from a model, start it with a prompt (or add
 * several canvases), then step it until no slot is active:
 *
 *     dllm_decoder *d;
 *     int64_t active = 1, count = 0;
 *     if (dllm_decoder_new(model, NULL, &d, err)) return fail(err);
 *     if (dllm_decoder_start(d, prompt, prompt_count, 7, err)) return fail(err);
 *     while (active > 0)
 *       if (dllm_decoder_step(d, NULL, &active, err)) return fail(err);
 *     dllm_decoder_ids(d, 0, ids, room, &count, err);
 *     dllm_decoder_release(d);
 *
 * The same seed gives the same tokens with step and with run, alone or with other slots, on any
 * number of threads.
 *
 * Failures   what fails for one slot ends that slot: metric "finish" is 3, dllm_decoder_describe has its
 *            error, its canvas stays as before the step, and the other slots go on as if it had not
 *            been there. step, step_for and run return the error of the first such slot when no slot
 *            is active after them; with one slot that is at once. A later call tries those slots again.
 *
 * Lifetime   a decoder keeps its model alive.
 * Threads    start, add, remove, step, step_for, run, predict and commit: one call at a time per decoder. ids,
 *            states, confidence, metric, trace, describe and statistics may be called at any time: they
 *            return the last complete step and do not wait for a running one. Different decoders of
 *            one model may run at the same time, also while the model is trained: a step computes with
 *            the weights of one version.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/** Creates a decoder without slots.
 *
 *   model   not NULL
 *   opts    NULL: defaults; kind "decoder" or "decoder:<policy>": policy, steps, block_length,
 *           gen_length, temperature, top_k, top_p, attention, shift, cache, guidance, on_change,
 *           trace (default 0), trace_bytes and the policy's own
 *   out     not NULL
 *
 * Returns  DLLM_OK; DLLM_FAILED_PRECONDITION when the model has no mask token, the hint names
 *          the choices; DLLM_INVALID_ARGUMENT for options that contradict each other
 * Owns     caller owns out, which keeps model
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_decoder_new(dllm_model *model, const dllm_options *opts,
                                      dllm_decoder **out, dllm_error *err);

/** Releases a decoder.
 *
 *   decoder   NULL: does nothing
 *
 * Returns  nothing
 * Owns     releases decoder
 * Threads  any
 * Since    1
 */
DLLM_API void dllm_decoder_release(dllm_decoder *decoder);

/** Removes all slots and starts one request in slot 0: the prompt, then gen_length open positions.
 *
 *   decoder   not NULL
 *   prompt    NULL only when count is 0
 *   count     ids of the prompt, 0 or more
 *   seed      any number
 *
 * Returns  DLLM_OK; DLLM_INVALID_ARGUMENT for an id out of the vocabulary; DLLM_OUT_OF_RANGE when
 *          prompt and answer are longer than the model allows
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_decoder_start(dllm_decoder *decoder, const int32_t *prompt, int64_t count,
                                        int64_t seed, dllm_error *err);

/** Adds a request with a given canvas, in which open positions may be anywhere (infilling).
 *
 *   decoder    not NULL
 *   canvas     NULL only when count is 0; ids, the ones at open positions are ignored
 *   fixed      NULL: all given and gen_length open positions follow; else 1: given, 0: open
 *   count      positions of canvas and fixed, 0 or more
 *   opts       NULL: defaults; kind "slot": seed, gen_length, temperature, top_k, top_p, steps,
 *              block_length, suppress (list), prompt_length, stop (list)
 *   out_slot   NULL, or gets the slot's number
 *
 * A slot without a seed has the seed 0. Slots with one canvas and one seed get one answer, so give
 * each its own seed to sample several; a warning says so once.
 *
 * Returns  DLLM_OK; DLLM_INVALID_ARGUMENT for an id out of the vocabulary; DLLM_OUT_OF_RANGE when
 *          the canvas is longer than the model allows; DLLM_RESOURCE_EXHAUSTED when no slot is free
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_decoder_add(dllm_decoder *decoder, const int32_t *canvas,
                                      const uint8_t *fixed, int64_t count, const dllm_options *opts,
                                      int64_t *out_slot, dllm_error *err);

/** Removes a request; its slot number may be used again.
 *
 *   decoder   not NULL
 *   slot      as returned by dllm_decoder_add
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND for a slot that is not in use
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_decoder_remove(dllm_decoder *decoder, int64_t slot, dllm_error *err);

/** Runs one denoising step of every active slot.
 *
 *   decoder      not NULL, holds a slot
 *   task         NULL, or checked every few milliseconds
 *   out_active   NULL, or gets the slots that still have open positions; 0: everything is decided
 *
 * Returns  DLLM_OK; DLLM_CANCELLED; DLLM_FAILED_PRECONDITION before dllm_decoder_start or
 *          dllm_decoder_add, under option on_change = "fail" when the weights are not those of the
 *          step before, and, of a slot that failed, when the logits of a wanted position are not
 *          finite or every token is banned there; DLLM_ABORTED when the weights are lost
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_decoder_step(dllm_decoder *decoder, dllm_task *task, int64_t *out_active,
                                       dllm_error *err);

/** Runs steps within a time budget, for example a part of a game's frame.
 *
 * The budget may end inside a forward pass, between two operations: the step is then suspended, this
 * function returns, and the next call continues it. The tokens are the same as with dllm_decoder_step. A
 * call runs at least one operation and exceeds its budget by one operation, or a part of a large product,
 * at most; the work before a first pass (compiling it, packing weights) counts as one operation, and so
 * does a whole pass on an engine of kind "pjrt". Events of completed steps are sent as by dllm_decoder_run.
 *
 * A suspended step keeps its memory and the weights it began with, also when they change meanwhile (a training
 * step then works on copies). dllm_decoder_step and dllm_decoder_run finish it first. A slot that is
 * added meanwhile waits for the next step. start, predict, commit, a cancel, a release and the removal
 * of a slot that takes part discard it; no canvas has changed then. It does not block other calls. The
 * pass runs on a thread of the decoder while the calling thread waits.
 *
 *   decoder      not NULL, holds a slot
 *   budget_ms    0 or more, finite, in milliseconds; 0: one operation
 *   fn           NULL, or called on this thread between steps; DLLM_STOP ends the call
 *   user_data    NULL, or passed to fn
 *   task         NULL, or checked every few milliseconds
 *   out_active   NULL, or gets the slots that still have open positions; 0: everything is decided
 *
 * Returns  DLLM_OK, also when a step is suspended (dllm_decoder_metric "suspended"); DLLM_CALLBACK_FAILED;
 *          all of dllm_decoder_step
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_decoder_step_for(dllm_decoder *decoder, double budget_ms,
                                           dllm_event_fn fn, void *user_data, dllm_task *task,
                                           int64_t *out_active, dllm_error *err);

/** Runs steps until no slot is active and sends an event for each.
 *
 * Sends DECODE_STEP for every active slot after each step, and BLOCK when a block is decided.
 * DLLM_STOP ends the run without an error; a later run continues from there.
 *
 *   decoder     not NULL, holds a slot
 *   fn          NULL, or called on this thread between steps
 *   user_data   NULL, or passed to fn
 *   task        NULL, or checked every few milliseconds; progress in steps
 *
 * Returns  DLLM_OK; DLLM_CALLBACK_FAILED; all of dllm_decoder_step
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_decoder_run(dllm_decoder *decoder, dllm_event_fn fn, void *user_data,
                                      dllm_task *task, dllm_error *err);

/** Copies the canvas of a slot: prompt and answer, the mask id where a position is open. Under policy
 * "editflow" its length changes from step to step.
 *
 *   decoder     not NULL
 *   slot        as returned by dllm_decoder_add
 *   dst         NULL only when dst_count is 0
 *   dst_count   room in dst, 0 or more
 *   out_count   not NULL; positions, also when dst is too small
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND for a slot that is not in use; DLLM_OUT_OF_RANGE when dst is too
 *          small, out_count has the needed count
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_decoder_ids(const dllm_decoder *decoder, int64_t slot, int32_t *dst,
                                      int64_t dst_count, int64_t *out_count, dllm_error *err);

/** Copies the state of every position, each one of DLLM_MASKED to DLLM_FIXED.
 *
 *   decoder     not NULL
 *   slot        as returned by dllm_decoder_add
 *   dst         NULL only when dst_count is 0
 *   dst_count   room in dst, 0 or more
 *   out_count   not NULL; positions, also when dst is too small
 *
 * Returns  as dllm_decoder_ids
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_decoder_states(const dllm_decoder *decoder, int64_t slot, uint8_t *dst,
                                         int64_t dst_count, int64_t *out_count, dllm_error *err);

/** Copies the probability each token had when its position was last predicted; 1 at fixed positions, 0
 * at positions that were never predicted.
 *
 *   decoder     not NULL
 *   slot        as returned by dllm_decoder_add
 *   dst         NULL only when dst_count is 0
 *   dst_count   room in dst, 0 or more
 *   out_count   not NULL; positions, also when dst is too small
 *
 * Returns  as dllm_decoder_ids
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_decoder_confidence(const dllm_decoder *decoder, int64_t slot, float *dst,
                                             int64_t dst_count, int64_t *out_count,
                                             dllm_error *err);

/** Reads one metric.
 *
 *   decoder   not NULL
 *   slot      as returned by dllm_decoder_add; -1: all slots together
 *   key       not NULL: "done" (0 or 1) "finish" (0: still open, 1: all decided, 2: stopped,
 *             3: failed)
 *             "prefills" "steps" "commits" (passes of these kinds) "nfe" "launches" (runs of
 *             programs; a loop of many steps counts as 1) "round_trips" (the launches that the
 *             host waited for) "decided" "open" (positions); for slot -1 also "slots"
 *             "cache_bytes" "reused" (positions not computed again) "computed" (positions that
 *             forward passes computed, padding included)
 *             "suspended" (0 or 1: a step of dllm_decoder_step_for is suspended)
 *   out       not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND for a slot that is not in use or an unknown key
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_decoder_metric(const dllm_decoder *decoder, int64_t slot, const char *key,
                                         double *out, dllm_error *err);

/** Writes the trace of a slot as JSON lines, one per step: step, ids, states, confidence.
 *
 * The decoder records it with option trace = 1, at most trace_bytes for each slot; a last line then
 * records that it stopped: {"slot", "step", "stopped": "trace_bytes", "bytes"}.
 *
 *   decoder   not NULL
 *   slot      as returned by dllm_decoder_add
 *   out       not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND for a slot that is not in use; DLLM_FAILED_PRECONDITION when the
 *          decoder was made without option trace = 1
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_decoder_trace(const dllm_decoder *decoder, int64_t slot, dllm_buffer *out,
                                        dllm_error *err);

/** Writes the effective options, the slots, the "metrics" of slot -1 and their "units" as a JSON
 * object.
 *
 * A slot that failed has "error": {"status", "text", "hint"}.
 *
 *   decoder   not NULL
 *   out       not NULL
 *
 * Returns  DLLM_OK
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_decoder_describe(const dllm_decoder *decoder, dllm_buffer *out,
                                           dllm_error *err);

/** Runs the model for the next step of every active slot and decides nothing: the host reads
 * dllmx_decoder_statistics and calls dllmx_decoder_commit for each slot. Calling it again before that
 * changes nothing. Symbols that begin with dllmx_ may change between versions.
 *
 *   decoder   not NULL, holds an active slot
 *   task      NULL, or checked every few milliseconds
 *
 * Returns  DLLM_OK; DLLM_CANCELLED; DLLM_FAILED_PRECONDITION when no slot has open positions, and as
 *          dllm_decoder_step; DLLM_ABORTED when the weights are lost
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllmx_decoder_predict(dllm_decoder *decoder, dllm_task *task, dllm_error *err);

/** Copies the predictions for the n positions that the policy needs in this step:
 * positions, token, argmax i32 (n); probability (of token), max_probability, entropy (nats) f32 (n);
 * top_ids i32 (n, top), top_probs f32 (n, top).
 *
 *   decoder   not NULL, after dllmx_decoder_predict
 *   slot      as returned by dllm_decoder_add
 *   out       not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND for a slot that is not in use; DLLM_FAILED_PRECONDITION when the
 *          slot was not predicted, or was committed since
 * Owns     caller owns out
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllmx_decoder_statistics(const dllm_decoder *decoder, int64_t slot,
                                              dllm_batch **out, dllm_error *err);

/** Decides positions of one slot and ends its step. Only positions of dllmx_decoder_statistics are
 * allowed, with any token but the mask. With count 0 the step decides nothing.
 *
 *   decoder     not NULL, after dllmx_decoder_predict
 *   slot        as returned by dllm_decoder_add
 *   positions   NULL only when count is 0
 *   ids         NULL only when count is 0; count token ids
 *   count       positions, 0 or more
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND; DLLM_INVALID_ARGUMENT for a position that was not predicted or a
 *          token that cannot be decided, and nothing is written; DLLM_FAILED_PRECONDITION before
 *          dllmx_decoder_predict; DLLM_UNIMPLEMENTED when the policy does not let the host decide
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllmx_decoder_commit(dllm_decoder *decoder, int64_t slot,
                                          const int64_t *positions, const int32_t *ids,
                                          int64_t count, dllm_error *err);

#ifdef __cplusplus
}
#endif
#endif
