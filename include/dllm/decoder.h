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
 * Failures   a failure of one slot ends that slot: its metric "finish" is 3, dllm_decoder_describe
 *            has its error, its canvas stays as before the step, and the other slots continue
 *            unchanged. When no slot is active after step, step_for or run, the call returns the
 *            error of the first failed slot; with one slot it returns the error at once. A later
 *            call tries the failed slots again.
 *
 * Lifetime   a decoder keeps its model alive.
 * Threads    start, add, remove, step, step_for, run, predict and commit: one call at a time per
 *            decoder. ids, states, confidence, metric, trace, describe and statistics may be called
 *            at any time: they return the last complete step and do not wait for a running one.
 *            Different decoders of one model may run at the same time, also while the model is
 *            trained: a step computes with the weights of one version.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/** Creates a decoder without slots.
 *
 * The options that most requests use; dllm_options_schema("decoder:<policy>") lists all of them:
 *
 *     option         values              meaning
 *     policy         name                which open positions are decided in a step
 *     steps          1 or more           denoising steps of a request, spread over its blocks
 *     block_length   0 or more           positions of a block; 0: one block; default: as the model
 *     gen_length     0 or more           open positions after a prompt
 *     temperature    0 to 100            divides the logits; 0: the token of the largest logit
 *     top_k          0 or more           number of likeliest tokens to sample from; 0: all
 *     top_p          0 to 1              total probability of the tokens to sample from; 1: all
 *     min_p          0 to 1              least probability of a token, as a share of the likeliest
 *                                        token's; 0: all
 *     attention      auto causal         what a token sees; auto: as the model
 *                    bidirectional
 *                    block_causal
 *     shift          -1 0 1              1: logits of position i predict token i + 1; -1: as model
 *     cache          auto none exact     KV cache; exact: same tokens as none; prefix, dual:
 *                    prefix dual         approximate; auto: exact where the attention allows it
 *     guidance       0 to 100            classifier-free guidance; 0: off
 *     on_change      continue fail       what a step does after a change of the model's weights
 *     adapters       list                adapters of the model that passes use, NAME or
 *                                        NAME:WEIGHT, whose changes are added; none: the base
 *                                        alone; empty: all adapters of the model
 *     adapter_folders   list             further adapters, NAME=FOLDER in the format of PEFT
 *     adapter_bytes  0 or more           most bytes of such adapters in memory; 0: no limit
 *     trace          0 1                 1: records every step, up to trace_bytes for each slot
 *
 * The decoder loads an adapter of adapter_folders when a request names it. Above adapter_bytes it
 * removes the one that was not used for the longest time, and never one that a running request
 * uses. model does not get these adapters. The decoder keeps the weights that model has now, and
 * its steps fail with DLLM_FAILED_PRECONDITION when they change.
 *
 *   model   not NULL
 *   opts    NULL: defaults; kind "decoder" or "decoder:<policy>": policy, steps, block_length,
 *           gen_length, temperature, top_k, top_p, min_p, attention, shift, cache, guidance,
 *           on_change, adapters (list), adapter_folders (list), adapter_bytes, trace (default 0),
 *           trace_bytes and the policy's own
 *   out     not NULL
 *
 * Returns  DLLM_OK; DLLM_FAILED_PRECONDITION when the model has no mask token, the hint names the
 *          choices; DLLM_INVALID_ARGUMENT for options that contradict each other
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
 * Slots with the same canvas and the same seed get the same answer. To sample several answers, set
 * a different seed for each slot. A slot without a seed has the seed 0. The log has one warning for
 * slots that repeat each other.
 *
 * The options of kind "slot", which hold for this request only:
 *
 *     seed            any number; default 0
 *     gen_length      open positions after the canvas; -1: as the decoder
 *     temperature     -1: as the decoder; the same for the filters of draws (top_k ...), which are
 *                     group "draw" of dllm_options_schema("slot")
 *     block_length    -1: as the decoder; with the three options below it is group "decoder"
 *     steps           0: as the decoder
 *     suppress        token ids that are never sampled, in addition to the decoder's
 *     adapters        adapters of this request, NAME or NAME:WEIGHT; none: the base alone; empty:
 *                     as the decoder
 *     prompt_length   given positions before the first block; -1: blocks begin with the canvas
 *     stop            token ids that end an answer: all later positions become that token
 *
 *   decoder    not NULL
 *   canvas     NULL only when count is 0; ids, the ids at open positions are ignored
 *   fixed      NULL: all of canvas is given, and gen_length open positions follow; else 1: given,
 *              0: open
 *   count      positions of canvas and fixed, 0 or more
 *   opts       NULL: defaults; kind "slot": seed, gen_length, those of group "draw",
 *              those of group "decoder", prompt_length, stop (list)
 *   out_slot   NULL, or gets the slot's number
 *
 * Returns  DLLM_OK; DLLM_INVALID_ARGUMENT for an id out of the vocabulary; DLLM_OUT_OF_RANGE when
 *          the canvas is longer than the model allows; DLLM_RESOURCE_EXHAUSTED when no slot is
 *          free, and when adapter_bytes is too small for an adapter; DLLM_NOT_FOUND for an adapter
 *          that the model lacks; as dllm_model_load_adapter for one of adapter_folders
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
 *   out_active   NULL, or gets the number of slots that have open positions; 0: everything is
 *                decided
 *
 * Returns  DLLM_OK; DLLM_CANCELLED; DLLM_FAILED_PRECONDITION before dllm_decoder_start or
 *          dllm_decoder_add, under option on_change = "fail" when the weights changed since the
 *          last step, and for a slot that failed because the logits of a position were not finite
 *          or every token was banned there; DLLM_ABORTED when the weights are lost
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_decoder_step(dllm_decoder *decoder, dllm_task *task, int64_t *out_active,
                                       dllm_error *err);

/** Runs steps within a time budget, for example a part of a game's frame.
 *
 * The budget may end inside a forward pass, between two operations. The step is then suspended,
 * this function returns, and the next call continues the step. The tokens are the same as with
 * dllm_decoder_step.
 *
 * A call runs at least one operation. It exceeds its budget by at most one operation, or by a part
 * of a large product. The work before a first pass (compiling it, packing weights) counts as one
 * operation. So does a whole pass on an engine of kind "pjrt". Events of completed steps are sent
 * as by dllm_decoder_run.
 *
 * A suspended step keeps its memory and the weights that it began with. A training step that
 * changes the weights meanwhile works on copies. dllm_decoder_step and dllm_decoder_run finish a
 * suspended step first. A slot that is added while a step is suspended waits for the next step. If
 * it loads an adapter (option adapter_folders), its dllm_decoder_add finishes the suspended step,
 * and the next call of this function or dllm_decoder_run sends the events. start, predict, commit,
 * a cancel, a release and the removal of a slot that takes part discard the suspended step; no
 * canvas has changed then. A suspended step does not block other calls. The pass runs on a thread
 * of the decoder while the calling thread waits.
 *
 *   decoder      not NULL, holds a slot
 *   budget_ms    0 or more, finite, in milliseconds; 0: one operation
 *   fn           NULL, or called on this thread between steps; DLLM_STOP ends the call
 *   user_data    NULL, or passed to fn
 *   task         NULL, or checked every few milliseconds
 *   out_active   NULL, or gets the number of slots that have open positions; 0: everything is
 *                decided
 *
 * Returns  DLLM_OK, also when a step is suspended (dllm_decoder_metric "suspended");
 *          DLLM_CALLBACK_FAILED; all of dllm_decoder_step
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

/** Copies the canvas of a slot: prompt and answer, with the mask id at open positions.
 *
 * Under policy "editflow" the length of the canvas changes from step to step.
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

/** Copies the probability that each token had when its position was last predicted.
 *
 * It is 1 at fixed positions and 0 at positions that were never predicted.
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
 *   key       not NULL: "done" (0 or 1) "finish" (0: open, 1: all decided, 2: stopped, 3: failed)
 *             "prefills" "steps" "commits" (forward passes of these kinds) "nfe" "launches" (runs
 *             of programs; a loop of many steps counts as 1) "round_trips" (launches that the host
 *             waited for) "decided" "open" (positions); for slot -1 also "slots" "cache_bytes"
 *             "reused" (positions that were not computed again) "computed" (positions that forward
 *             passes computed, padding included) "suspended" (0 or 1: a step of
 *             dllm_decoder_step_for is suspended)
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
 * The decoder records the trace with option trace = 1, at most trace_bytes for each slot. When it
 * stops recording, it adds a last line: {"slot", "step", "stopped": "trace_bytes", "bytes"}.
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

/** Runs the model for the next step of every active slot and decides nothing.
 *
 * After it the host reads dllmx_decoder_statistics and calls dllmx_decoder_commit for each slot. A
 * second call before the commits changes nothing. Symbols that begin with dllmx_ may change between
 * versions.
 *
 *   decoder   not NULL, holds an active slot
 *   task      NULL, or checked every few milliseconds
 *
 * Returns  DLLM_OK; DLLM_CANCELLED; DLLM_FAILED_PRECONDITION when no slot has open positions, and
 *          as dllm_decoder_step; DLLM_ABORTED when the weights are lost
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllmx_decoder_predict(dllm_decoder *decoder, dllm_task *task, dllm_error *err);

/** Copies the predictions for the n positions that the policy needs in this step.
 *
 *     positions, token, argmax        i32 (n)
 *     probability                     f32 (n), of token
 *     max_probability                 f32 (n)
 *     entropy                         f32 (n), in nats
 *     top_ids                         i32 (n, top)
 *     top_probs                       f32 (n, top)
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

/** Decides positions of one slot and ends its step.
 *
 * Only positions of dllmx_decoder_statistics are allowed, with any token except the mask token.
 * With count 0 the step decides nothing.
 *
 *   decoder     not NULL, after dllmx_decoder_predict
 *   slot        as returned by dllm_decoder_add
 *   positions   NULL only when count is 0
 *   ids         NULL only when count is 0; count token ids
 *   count       positions, 0 or more
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND; DLLM_INVALID_ARGUMENT for a position that was not predicted or
 *          a token that cannot be decided (nothing is written then); DLLM_FAILED_PRECONDITION
 *          before dllmx_decoder_predict; DLLM_UNIMPLEMENTED when the policy does not let the host
 *          decide
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
