#ifndef DLLM_QUEUE_H
#define DLLM_QUEUE_H
/* dllm/queue.h -- answer the requests of many threads with one model.
 *
 * A queue decodes on a thread of its own. Any thread submits requests, waits for them, reads their
 * texts and cancels them. Requests join and leave between two steps, so none waits for the end of
 * another one:
 *
 *     dllm_queue *q;
 *     dllm_options *request;
 *     dllm_buffer *answer = dllm_buffer_new();
 *     int64_t number = 0, version = 0, over = 0;
 *     if (dllm_queue_load("model", NULL, NULL, NULL, NULL, &q, err)) return fail(err);
 *     dllm_options_new("request", &request, err);
 *     dllm_options_set_str(request, "prompt", "The wise man", err);
 *     if (dllm_queue_submit(q, request, NULL, NULL, &number, err)) return fail(err);
 *     while (!over) {
 *       if (dllm_queue_wait(q, number, 1000, NULL, &version, &over, err)) return fail(err);
 *       if (dllm_queue_text(q, number, "next", answer, err)) return fail(err);
 *       fputs((const char *)dllm_buffer_data(answer), stdout);
 *     }
 *     dllm_queue_remove(q, number, err);
 *
 * Texts      the text of a request is the one that a generator returns for it (dllm/generator.h),
 *            whatever else is decoded.
 * Readers    a reader sees the last complete step. A slow reader misses steps and no text, and it
 *            holds nothing up.
 * Failures   an error of one request ends that request alone: its finish is "failed", and
 *            dllm_queue_text returns the error.
 * Order      the highest priority goes first. Clients of one priority share the decoder, however
 *            many requests each one has.
 *
 * Lifetime   a queue keeps its model, its tokenizer and its engine alive. It keeps requests that
 *            are over until they are removed, at most as many as option kept.
 * Threads    any thread, also several at a time. A child that was forked from the process of a
 *            queue can only release it.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/** Loads a model with its tokenizer, and starts a queue.
 *
 *   path         not NULL, as of dllm_model_load; the tokenizer is the one that path holds
 *   engine       NULL: a new engine with the defaults of kind "engine"
 *   model_opts   NULL: defaults; kind "model"
 *   opts         NULL: defaults; kind "queue", as of dllm_queue_new
 *   task         NULL, or checked every few milliseconds; progress in bytes
 *   out          not NULL
 *
 * Returns  as dllm_model_load, dllm_tokenizer_load and dllm_queue_new
 * Owns     caller owns out
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_queue_load(const char *path, dllm_engine *engine,
                                     const dllm_options *model_opts, const dllm_options *opts,
                                     dllm_task *task, dllm_queue **out, dllm_error *err);

/** Starts a queue without requests.
 *
 * The options of kind "queue":
 *
 *     slots         1..    most requests that are decoded at a time
 *     waiting       0..    most requests that wait for a slot
 *     kept          1..    most requests that are over and were not removed
 *     policy        name   policy of requests that name none; auto: the policy that the model was
 *                          trained for
 *     defaults      0 1    1: generation_config.json holds where a request sets nothing
 *     adapter_folders   list   adapters that requests may name, as of dllm_decoder_new
 *     adapter_bytes 0..    most bytes of these adapters in memory; 0: no limit
 *
 *   model   not NULL
 *   tok     not NULL; encodes prompts with its own options
 *   opts    NULL: defaults; kind "queue": slots, waiting, kept, policy, defaults, adapter_folders
 *           (list), adapter_bytes
 *   out     not NULL
 *
 * Returns  as dllm_generator_new
 * Owns     caller owns out, which keeps model, tok
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_queue_new(dllm_model *model, const dllm_tokenizer *tok,
                                    const dllm_options *opts, dllm_queue **out, dllm_error *err);

/** Cancels the requests that are not over, and releases a queue.
 *
 *   queue   NULL: does nothing
 *
 * Returns  nothing
 * Owns     releases queue
 * Threads  any
 * Since    1
 */
DLLM_API void dllm_queue_release(dllm_queue *queue);

/** Submits a request.
 *
 * The request is read on the calling thread: its prompt is encoded and its pattern is compiled.
 * It waits then for a slot.
 *
 *   queue        not NULL
 *   request      NULL: an empty prompt; kind "request" or "request:<policy>", as of
 *                dllm_generator_add
 *   opts         NULL: defaults; kind "submission": priority (-1000 to 1000), client (text: who
 *                asks), timeout (seconds from now to the end of the request; 0: none)
 *   task         NULL, or checked every few milliseconds while the request is read
 *   out_number   not NULL; the number of the request, which no other request of the queue gets
 *
 * Returns  DLLM_OK; the errors of dllm_generator_add for a request that cannot be read;
 *          DLLM_RESOURCE_EXHAUSTED when too many requests wait; DLLM_UNAVAILABLE after
 *          dllm_queue_drain
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_queue_submit(dllm_queue *queue, const dllm_options *request,
                                       const dllm_options *opts, dllm_task *task,
                                       int64_t *out_number, dllm_error *err);

/** Waits until a request has changed.
 *
 * The version of a request is 1 when it is submitted, and it grows at each of its steps and at its
 * end. The call returns when the version is above the one that the caller passes, when the request
 * is over, or after timeout_ms.
 *
 *   queue         not NULL
 *   number        as returned by dllm_queue_submit; -1: any request, with a version of the queue
 *   timeout_ms    0 or more; 0 returns at once
 *   task          NULL, or checked every 10 ms
 *   out_version   not NULL; before the call the last version that the caller saw, or 0; gets the
 *                 version now
 *   out_over      NULL, or gets 1 when the request is over, else 0
 *
 * Returns  DLLM_OK, also when the time is up; DLLM_NOT_FOUND; DLLM_INVALID_ARGUMENT for a negative
 *          timeout_ms; DLLM_CANCELLED, the request stays open
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_queue_wait(const dllm_queue *queue, int64_t number, int64_t timeout_ms,
                                     dllm_task *task, int64_t *out_version, int64_t *out_over,
                                     dllm_error *err);

/** Returns a part of the text of a request, as of its last complete step.
 *
 *   queue    not NULL
 *   number   as returned by dllm_queue_submit
 *   part     not NULL; completion, text, next or canvas, as of dllm_generator_text
 *   out      not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND for a request or a part that is not there; the error of a
 *          request that failed: DLLM_CANCELLED, DLLM_DEADLINE_EXCEEDED after its timeout, and those
 *          of dllm_decoder_step
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_queue_text(dllm_queue *queue, int64_t number, const char *part,
                                     dllm_buffer *out, dllm_error *err);

/** Writes a request, or the queue, as a JSON object.
 *
 * A request has the keys of dllm_generator_describe, and:
 *
 *     phase            waiting, decoding or over
 *     version          as of dllm_queue_wait
 *     priority, client
 *     seconds_waited   before its first step
 *     seconds          since it was submitted, to its end
 *
 * Number -1 is the queue: policy, reason, own_policy, slots, waiting, decoding and over (numbers of
 * requests), version, cache_bytes, launches, computed, reused (as of dllm_decoder_metric), and
 * totals since the queue was made: submitted, completed, failed, cancelled, late (after their
 * timeout), prompt_tokens, completion_tokens and nfe of requests that were decoded, steps,
 * step_seconds. "durations" counts requests that are over by their seconds from the submission to
 * the first step (waiting), to the first final text (first_text) and to the end (whole). Each has
 * edges (of ranges, in seconds), counts (one more than edges) and seconds (their sum).
 *
 *   queue    not NULL
 *   number   as returned by dllm_queue_submit; -1: the queue
 *   out      not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_queue_describe(dllm_queue *queue, int64_t number, dllm_buffer *out,
                                         dllm_error *err);

/** Ends a request with the error DLLM_CANCELLED.
 *
 * Readers see the end at once. A step that computes for this request alone is cut; other requests
 * are not disturbed. A request that is over stays as it is.
 *
 *   queue    not NULL
 *   number   as returned by dllm_queue_submit
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_queue_cancel(dllm_queue *queue, int64_t number, dllm_error *err);

/** Cancels a request that is not over, and forgets it.
 *
 *   queue    not NULL
 *   number   as returned by dllm_queue_submit
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_queue_remove(dllm_queue *queue, int64_t number, dllm_error *err);

/** Takes no further requests, and waits until all are over.
 *
 *   queue   not NULL
 *   task    NULL, or checked every 10 ms
 *
 * Returns  DLLM_OK; DLLM_CANCELLED or DLLM_DEADLINE_EXCEEDED, the queue takes no requests then
 *          either
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_queue_drain(dllm_queue *queue, dllm_task *task, dllm_error *err);

/** Returns the model of a queue.
 *
 *   queue   not NULL
 *   out     not NULL
 *
 * Returns  DLLM_OK
 * Owns     caller owns out
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_queue_model(const dllm_queue *queue, dllm_model **out, dllm_error *err);

/** Returns the tokenizer of a queue.
 *
 *   queue   not NULL
 *   out     not NULL
 *
 * Returns  DLLM_OK
 * Owns     caller owns out
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_queue_tokenizer(const dllm_queue *queue, dllm_tokenizer **out,
                                          dllm_error *err);

#ifdef __cplusplus
}
#endif
#endif
