#ifndef DLLM_GENERATOR_H
#define DLLM_GENERATOR_H
/* dllm/generator.h -- text in, text out.
 *
 * A generator has a model, its tokenizer and a decoder. It takes requests for text and returns
 * text:
 *
 *     dllm_generator *g;
 *     dllm_options *request;
 *     dllm_buffer *answer = dllm_buffer_new();
 *     int64_t number = 0;
 *     if (dllm_generator_load("model", NULL, NULL, NULL, NULL, &g, err)) return fail(err);
 *     dllm_options_new("request", &request, err);
 *     dllm_options_set_str(request, "prompt", "The wise man", err);
 *     if (dllm_generator_add(g, request, NULL, &number, err)) return fail(err);
 *     if (dllm_generator_run(g, NULL, NULL, NULL, err)) return fail(err);
 *     if (dllm_generator_text(g, number, "completion", answer, err)) return fail(err);
 *     puts((const char *)dllm_buffer_data(answer));
 *
 * Several requests that are added before a run are decoded together. The text of a request does not
 * depend on the others.
 *
 * Settings   a request has its own settings. Where it sets nothing, generation_config.json of the
 *            model counts, then the defaults of its policy.
 * Failures   an error of one request ends that request alone: its finish is "failed", and
 *            dllm_generator_text returns the error. Other requests continue.
 *
 * Lifetime   a generator keeps its model, its tokenizer and its engine alive.
 * Threads    one call at a time per generator.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/** Loads a model with its tokenizer.
 *
 *   path         not NULL, as of dllm_model_load; the tokenizer is the one that path holds
 *   engine       NULL: a new engine with the defaults of kind "engine"
 *   model_opts   NULL: defaults; kind "model"
 *   opts         NULL: defaults; kind "generator", as of dllm_generator_new
 *   task         NULL, or checked every few milliseconds; progress in bytes
 *   out          not NULL
 *
 * Returns  as dllm_model_load, dllm_tokenizer_load and dllm_generator_new
 * Owns     caller owns out
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_generator_load(const char *path, dllm_engine *engine,
                                         const dllm_options *model_opts, const dllm_options *opts,
                                         dllm_task *task, dllm_generator **out, dllm_error *err);

/** Creates a generator without requests.
 *
 * The options of kind "generator":
 *
 *     policy        name   policy of requests that name none; auto: the policy that the model was
 *                          trained for
 *     defaults      0 1    1: generation_config.json holds where a request sets nothing
 *     slots         1..    most requests at a time, finished ones included
 *     trace         0 1    1: records every step, up to trace_bytes for each request
 *     adapter_folders   list   adapters that requests may name, as of dllm_decoder_new
 *     adapter_bytes 0..    most bytes of these adapters in memory; 0: no limit
 *
 *   model   not NULL
 *   tok     not NULL; encodes prompts with its own options. dllm_generator_load sets add_start.
 *   opts    NULL: defaults; kind "generator": policy, defaults, slots, trace, trace_bytes,
 *           adapter_folders (list), adapter_bytes
 *   out     not NULL
 *
 * Returns  DLLM_OK; DLLM_FAILED_PRECONDITION when the model has no mask token and the policy needs
 *          one
 * Owns     caller owns out, which keeps model, tok
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_generator_new(dllm_model *model, const dllm_tokenizer *tok,
                                        const dllm_options *opts, dllm_generator **out,
                                        dllm_error *err);

/** Releases a generator.
 *
 *   generator   NULL: does nothing
 *
 * Returns  nothing
 * Owns     releases generator
 * Threads  any
 * Since    1
 */
DLLM_API void dllm_generator_release(dllm_generator *generator);

/** Adds a request.
 *
 * A request begins with one of three texts:
 *
 *     prompt     a text that the answer continues
 *     messages   a JSON list of {"role", "content"}, for the chat template of the tokenizer
 *     infill     a text with holes: <mask:N> is N open tokens, <mask> is one
 *
 * The options that most requests use; dllm_options_schema("request:<policy>") lists all of them:
 *
 *     length        open positions after a prompt or a conversation; 0: none
 *     stop          texts that end the answer and are left out of it; not for infill
 *     stop_ids      ids of tokens that end the answer; empty: the end tokens of the model's files;
 *                   not for infill
 *     stop_pattern  a regular expression: the answer ends before the first part that matches it;
 *                   not for infill
 *     regex         the whole answer matches this regular expression; for infill the whole text
 *     choices       the whole answer is one of these texts
 *     json_schema   the whole answer is JSON of this schema: an object of JSON Schema
 *     grammar       the whole answer matches this grammar, in the form of llama.cpp (GBNF)
 *     seed          the same seed gives the same text
 *     policy        which open positions are decided in a step; auto: the policy of the generator
 *     adapters      adapters of the model that answer, as of dllm_decoder_new: ["math:0.7"]
 *     temperature   and all other options of the policy, as of dllm_decoder_new
 *
 *   generator    not NULL
 *   request      NULL: an empty prompt; kind "request" or "request:<policy>": prompt, messages,
 *                infill, template, template_name, tools, variables, stop (list), stop_ids (list),
 *                stop_pattern, length, prompt_length, seed, regex, choices (list), json_schema,
 *                grammar, policy, and those of a decoder. Group "end" of the schema has what ends
 *                an answer by its text, group "constraint" what the text has to match
 *   task         NULL, or checked every few milliseconds while a long prompt is encoded
 *   out_number   not NULL; the number of the request
 *
 * Returns  DLLM_OK; DLLM_INVALID_ARGUMENT for two texts, a text like a hole that is not one, a
 *          pattern that no text of this length matches, and settings that contradict each other;
 *          DLLM_UNIMPLEMENTED for a pattern with a policy that begins with noise or changes the
 *          length; DLLM_NOT_FOUND for an option that the policy lacks;
 *          DLLM_FAILED_PRECONDITION for messages without a chat template, and inside a callback of
 *          the generator; DLLM_OUT_OF_RANGE when prompt and answer are longer than the model
 *          allows; DLLM_RESOURCE_EXHAUSTED when no slot is free
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_generator_add(dllm_generator *generator, const dllm_options *request,
                                        dllm_task *task, int64_t *out_number, dllm_error *err);

/** Removes a request, open or over; its number may be used again.
 *
 *   generator   not NULL
 *   number      as returned by dllm_generator_add
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND; DLLM_FAILED_PRECONDITION inside a callback of the generator
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_generator_remove(dllm_generator *generator, int64_t number,
                                           dllm_error *err);

/** Takes one denoising step of every open request.
 *
 *   generator   not NULL, has a request
 *   task        NULL, or checked every few milliseconds
 *   out_open    NULL, or gets the number of requests that are not over
 *
 * Returns  DLLM_OK, also when requests failed; DLLM_CANCELLED, the requests stay open;
 *          DLLM_FAILED_PRECONDITION without a request; DLLM_ABORTED when the weights are lost
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_generator_step(dllm_generator *generator, dllm_task *task,
                                         int64_t *out_open, dllm_error *err);

/** Takes steps until no request is open.
 *
 * Sends TEXT for each request after each of its steps, and ANSWER when the request is over
 * (dllm/event.h). DLLM_STOP ends the run without an error; a later run continues.
 *
 *   generator   not NULL
 *   fn          NULL, or called on this thread between steps
 *   user_data   NULL, or passed to fn
 *   task        NULL, or checked every few milliseconds; progress in steps
 *
 * Returns  DLLM_OK, also when requests failed or none is open; DLLM_CANCELLED, the requests stay
 *          open; DLLM_CALLBACK_FAILED; DLLM_ABORTED when the weights are lost
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_generator_run(dllm_generator *generator, dllm_event_fn fn,
                                        void *user_data, dllm_task *task, dllm_error *err);

/** Returns a part of the text of a request.
 *
 *     completion   the answer as it is now; of a text with holes: the whole text
 *     text         the prompt and the answer
 *     next         the final text that this call has not returned; all of them together are the
 *                  completion. Events have a count of their own, so a stream loses nothing to a run
 *                  with a callback. Policies that revise tokens have it late.
 *     canvas       all positions, with <mask:N> for N open ones, as option infill takes it
 *
 *   generator   not NULL
 *   number      as returned by dllm_generator_add
 *   part        not NULL; completion, text, next or canvas
 *   out         not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND for a request or a part that is not there; the error of a
 *          request that failed
 * Owns     nothing
 * Threads  callback
 * Since    1
 */
DLLM_API dllm_status dllm_generator_text(dllm_generator *generator, int64_t number,
                                         const char *part, dllm_buffer *out, dllm_error *err);

/** Writes a request, or the generator, as a JSON object.
 *
 *     request             its number
 *     finish              open, full (every position is decided), end_token, stop_text (also for
 *                         stop_pattern), incomplete (the steps are used up, and positions are open)
 *                         or failed
 *     completion, text    as of dllm_generator_text; absent when the request failed
 *     holes               list of texts, one per hole; of an infill alone. Holes next to each
 *                         other are one.
 *     error               code, message and hint of a request that failed
 *     prompt_tokens, completion_tokens, open, steps, nfe, seed, policy, end_tokens
 *     settings            all options of the decoder that hold for the request
 *     from_file           taken: settings from generation_config.json; left_out: those that do not
 *                         fit, each with the reason
 *     ids, states, confidence    one entry per position
 *
 * Number -1 is the generator: policy, the reason of the choice, own_policy (the policy that auto
 * chooses for the model), requests, open.
 *
 *   generator   not NULL
 *   number      as returned by dllm_generator_add; -1: the generator
 *   out         not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND
 * Owns     nothing
 * Threads  callback
 * Since    1
 */
DLLM_API dllm_status dllm_generator_describe(dllm_generator *generator, int64_t number,
                                             dllm_buffer *out, dllm_error *err);

/** Returns the decoder of a generator, for its readers: ids, states, confidence, metric, trace,
 * describe, statistics. Its slots have the numbers of the requests.
 *
 * Calls that change a decoder fail with DLLM_FAILED_PRECONDITION.
 *
 *   generator   not NULL
 *   out         not NULL
 *
 * Returns  DLLM_OK
 * Owns     caller owns out
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_generator_decoder(const dllm_generator *generator, dllm_decoder **out,
                                            dllm_error *err);

/** Returns the model of a generator.
 *
 *   generator   not NULL
 *   out         not NULL
 *
 * Returns  DLLM_OK
 * Owns     caller owns out
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_generator_model(const dllm_generator *generator, dllm_model **out,
                                          dllm_error *err);

/** Returns the tokenizer of a generator.
 *
 *   generator   not NULL
 *   out         not NULL
 *
 * Returns  DLLM_OK
 * Owns     caller owns out
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_generator_tokenizer(const dllm_generator *generator, dllm_tokenizer **out,
                                              dllm_error *err);

#ifdef __cplusplus
}
#endif
#endif
