#ifndef DLLM_OPTIONS_H
#define DLLM_OPTIONS_H
/* dllm/options.h -- typed keys and values, checked against a schema.
 *
 * Every call with many settings takes a dllm_options of one kind. An options object has the keys
 * of its kind with their types, defaults and ranges; setting another key or value fails:
 *
 *     dllm_options *o;
 *     dllm_options_new("decoder", &o, err);
 *     dllm_options_set_i64(o, "steps", 64, err);
 *     dllm_options_set_str(o, "policy", "low_confidence", err);
 *     dllm_decoder_new(model, o, &decoder, err);
 *     dllm_options_release(o);
 *
 * Kinds: engine model save forward tokenizer tokenizer_train dataset loader anchors schedule
 * objective trainer trajectories sink decoder slot checkpoint plan hub lua. When keys depend on a
 * registered name the kind contains it: "objective:mdlm", "decoder:low_confidence".
 * dllm_registry_name("options", i) lists them all.
 *
 * Lifetime   options need no other object; a call copies them, so they serve many calls.
 * Threads    one call at a time per object; reads may run together.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/** Creates options of one kind, every key at its default.
 *
 *   kind   not NULL, one of the kinds above
 *   out    not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND for an unknown kind, the hint names the nearest
 * Owns     caller owns out
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_options_new(const char *kind, dllm_options **out, dllm_error *err);

/** Releases options.
 *
 *   opts   NULL: does nothing
 *
 * Returns  nothing
 * Owns     releases opts
 * Threads  any
 * Since    1
 */
DLLM_API void dllm_options_release(dllm_options *opts);

/** Sets a whole number, or a yes/no key to 0 or 1.
 *
 * A key of type f64 also takes a whole number.
 *
 *   opts    not NULL
 *   key     not NULL, as in the schema
 *   value   within the key's range
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND for an unknown key, the hint names the nearest;
 *          DLLM_INVALID_ARGUMENT for the wrong type or out of range, the message names the range
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_options_set_i64(dllm_options *opts, const char *key, int64_t value,
                                          dllm_error *err);

/** Sets a real number.
 *
 *   opts    not NULL
 *   key     not NULL, as in the schema
 *   value   finite, within the key's range
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND; DLLM_INVALID_ARGUMENT, as dllm_options_set_i64
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_options_set_f64(dllm_options *opts, const char *key, double value,
                                          dllm_error *err);

/** Sets a text, or one of the choices of a key that has choices.
 *
 *   opts    not NULL
 *   key     not NULL, as in the schema
 *   value   not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND; DLLM_INVALID_ARGUMENT, as dllm_options_set_i64
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_options_set_str(dllm_options *opts, const char *key, const char *value,
                                          dllm_error *err);

/** Sets many keys at once from a JSON object; also sets list keys.
 *
 * Nested objects are dotted keys: {"pjrt": {"plugin": "x"}} is "pjrt.plugin". All keys are
 * checked first: when one is wrong, none is set.
 *
 *   opts   not NULL
 *   json   not NULL, a JSON object
 *   size   bytes of json, 0 or more
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND; DLLM_INVALID_ARGUMENT, also for text that is not a JSON object
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_options_set_json(dllm_options *opts, const char *json, int64_t size,
                                           dllm_error *err);

/** Writes the effective values of every key, defaults included, as a JSON object.
 *
 *   opts   not NULL
 *   out    not NULL
 *
 * Returns  DLLM_OK
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_options_to_json(const dllm_options *opts, dllm_buffer *out,
                                          dllm_error *err);

/** Writes the schema of one kind: a JSON object {"kind", "keys": [{"name", "type", "default",
 * ...}]}.
 *
 * A key has name, type (bool i64 f64 str list), default, doc (one sentence) and since. It has min
 * and max, or choices, when its values are limited. Keys that answer one question have group, as
 * the keys "constraint" of a request.
 *
 * A kind "objective:<name>" also has "about", an object with facts about the objective for
 * programs:
 *
 *     "rows"            the prepared rows, compared with the rows of the data, one of:
 *                       masked replaced clean two_streams canvas edited vectors
 *                       given sampled (both: scripts make the batches)
 *     "packs"           several texts may share a row
 *     "padding"         option that trains the padding after a text; "": none
 *     "shift"           shift of the loss where option shift is -1; -1: that of the model
 *     "model"           attention of a model from scratch: bidirectional causal canvas
 *     "heads"           option heads of such a model
 *     "positions"       option for the most tokens of a text; "": no fixed number
 *     "policy"          the policy for models of this objective; "": any policy of masked diffusion
 *     "sample"          options of a decoder for a sample
 *     "sample_at_end"   true: a short training is worth a sample
 *     "likelihood"      true: the loss bounds -log p, in nats per token
 *
 *   kind   not NULL, as in dllm_options_new
 *   out    not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND for an unknown kind
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_options_schema(const char *kind, dllm_buffer *out, dllm_error *err);

#ifdef __cplusplus
}
#endif
#endif
