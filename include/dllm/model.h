#ifndef DLLM_MODEL_H
#define DLLM_MODEL_H
/* dllm/model.h -- load, make, run and save a model.
 *
 *     dllm_model *model;
 *     if (dllm_model_load(engine, "path/to/folder", NULL, NULL, &model, err)) return fail(err);
 *     dllm_model_forward(model, batch, NULL, NULL, &result, err);
 *     dllm_batch_array(result, "logits", &logits, err);
 *
 * A model is a config (as Hugging Face's config.json) and named parameters (as in its
 * safetensors). Its version grows with every change of weights.
 *
 * Lifetime   a model keeps its engine alive; trainers and decoders keep their model alive.
 * Threads    what only reads may be called at any time. What reads numbers (param, save) waits while a
 *            training step writes them and gets all of one version. forward, set_param, set_tokenizer,
 *            a new trainer and training: one call at a time per model; set_param beside a step waits
 *            for its end. Decoders of the model may step meanwhile, but for a new trainer, which may
 *            give the model another vocabulary and other types.
 *
 * Lost       a step that fails on the device, or out of memory while it writes, loses the weights: the
 *            step itself returns what it failed with, and from then on whatever needs them (param,
 *            save, forward, a decoding step) fails at once with DLLM_ABORTED, until a checkpoint is
 *            restored into the trainer.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Loads a model from a Hugging Face folder, a GGUF file, a checkpoint folder or a run folder.
 *
 *   engine   not NULL
 *   path     not NULL, a folder with config.json and safetensors, a .gguf file, a checkpoint
 *            folder, or a run folder, which stands for its latest whole checkpoint
 *   opts     NULL: defaults; kind "model": dtype (auto keep f32 bf16 f16 int8 q8_0), attention,
 *            shift, mask_token, cache_dtype (auto f32 bf16), check (finite off). dtype is the weight
 *            format matrices are kept in: keep leaves every tensor in the format of the file (a GGUF
 *            in q8_0 takes 34 bytes for 32 weights, an f16 file 2 bytes each) where products read
 *            that format, others as auto. Products compute in f32 and have the bits of the
 *            dequantized model. f16 and q8_0: the cpu engine alone; a matrix whose rows are not
 *            whole blocks (32 in q8_0) is f32
 *   task     NULL, or checked every few milliseconds; progress in bytes
 *   out      not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND for a missing file or tensor; DLLM_DATA_LOSS for a damaged
 *          file, the message names file, tensor, expected and found, or for a weight that is not
 *          finite unless check is off, it names tensor and place; DLLM_UNIMPLEMENTED for an
 *          unknown family or tensor type, or for a dtype the engine does not multiply;
 *          DLLM_RESOURCE_EXHAUSTED when the parameters need more
 *          than the machine or the engine's memory_limit has, before memory is taken; DLLM_CANCELLED
 * Owns     out is yours, keeps engine
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_model_load(dllm_engine *engine, const char *path,
                                     const dllm_options *opts, dllm_task *task, dllm_model **out,
                                     dllm_error *err);

/* Loads a model from files held in memory.
 *
 *   engine   not NULL
 *   source   not NULL, holds the files of a model folder or one .gguf file
 *   opts     NULL: defaults; kind "model"
 *   task     NULL, or checked every few milliseconds; progress in bytes
 *   out      not NULL
 *
 * Returns  as dllm_model_load
 * Owns     out is yours, keeps engine, source
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_model_load_source(dllm_engine *engine, const dllm_source *source,
                                            const dllm_options *opts, dllm_task *task,
                                            dllm_model **out, dllm_error *err);

/* Makes a model with random weights, drawn from the config's initializer_range and option seed.
 *
 *   engine        not NULL
 *   config_json   not NULL, the content of a config.json
 *   size          bytes of config_json, 0 or more
 *   opts          NULL: defaults; kind "model": seed, dtype, attention, shift, mask_token,
 *                 cache_dtype, check
 *   task          NULL, or checked every few milliseconds
 *   out           not NULL
 *
 * Returns  DLLM_OK; DLLM_INVALID_ARGUMENT for a config that makes no model, the message names the
 *          key; DLLM_UNIMPLEMENTED for an unknown family; DLLM_RESOURCE_EXHAUSTED when the
 *          parameters need more than the machine or the engine's memory_limit has, before memory is
 *          taken; DLLM_CANCELLED
 * Owns     out is yours, keeps engine
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_model_new(dllm_engine *engine, const char *config_json, int64_t size,
                                    const dllm_options *opts, dllm_task *task, dllm_model **out,
                                    dllm_error *err);

/* Saves a model as a Hugging Face folder: config.json and safetensors.
 *
 * The folder appears whole or not at all: files are written beside it and renamed.
 *
 *   model   not NULL
 *   path    not NULL, the folder to make
 *   opts    NULL: defaults; kind "save": dtype, max_shard_bytes, overwrite (of a folder that a
 *           save wrote; the former one is removed when the new one stands)
 *   task    NULL, or checked every few milliseconds; progress in bytes
 *
 * Returns  DLLM_OK; DLLM_ALREADY_EXISTS unless overwrite is 1, and when the folder holds a file that
 *          no save wrote: the message names it; DLLM_PERMISSION_DENIED;
 *          DLLM_RESOURCE_EXHAUSTED when the disk is full; DLLM_ABORTED when the weights are lost;
 *          DLLM_UNAVAILABLE when another save to this path has not ended after 30 s; DLLM_CANCELLED
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_model_save(const dllm_model *model, const char *path,
                                     const dllm_options *opts, dllm_task *task, dllm_error *err);

/* Gives a model back.
 *
 *   model   NULL: does nothing
 *
 * Returns  nothing
 * Owns     model is gone
 * Threads  any
 * Since    1
 */
DLLM_API void dllm_model_release(dllm_model *model);

/* Writes the config as JSON, in the words of Hugging Face's config.json plus a "dllm" object.
 *
 *   model   not NULL
 *   out     not NULL
 *
 * Returns  DLLM_OK
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_model_config(const dllm_model *model, dllm_buffer *out, dllm_error *err);

/* Writes what the model is as a JSON object: family, attention, shift, runs, bytes, storage (per
 * stack: name, shape, dtype, format, trainable, of quantized ones rounding_error).
 *
 *   model   not NULL
 *   out     not NULL
 *
 * Returns  DLLM_OK
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_model_describe(const dllm_model *model, dllm_buffer *out,
                                         dllm_error *err);

/* Reads a number of the model.
 *
 *   model   not NULL
 *   key     not NULL: "vocab" "hidden" "layers" "max_length" "mask_id" "params" "bytes"
 *   out     not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND for an unknown key, and for "mask_id" when the model has none
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_model_i64(const dllm_model *model, const char *key, int64_t *out,
                                    dllm_error *err);

/* Tells the version of the weights, which grows with every change.
 *
 *   model   NULL: 0
 *
 * Returns  1 or more
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API int64_t dllm_model_version(const dllm_model *model);

/* Counts the named parameters.
 *
 *   model   NULL: 0
 *
 * Returns  parameters, 1 or more
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API int64_t dllm_model_param_count(const dllm_model *model);

/* Names a parameter, in the words of the Hugging Face checkpoint.
 *
 *   model   NULL: NULL
 *   index   0 to dllm_model_param_count - 1
 *
 * Returns  text; NULL when index is out of range
 * Owns     result is lent until the model is released
 * Threads  any
 * Since    1
 */
DLLM_API const char *dllm_model_param_name(const dllm_model *model, int64_t index);

/* Copies one parameter out, in f32 or the exact form it is stored in.
 *
 * Parameters of equal layers lie in one array on the engine, and a call reads all of it: to export a
 * model, save it.
 *
 *   model   not NULL
 *   name    not NULL
 *   out     not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND, the hint names the nearest; DLLM_ABORTED when the weights are lost
 * Owns     out is yours
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_model_param(const dllm_model *model, const char *name, dllm_tensor **out,
                                      dllm_error *err);

/* Replaces one parameter and moves the version. Waits for a training step that runs.
 *
 * The first call for an array of equal layers copies it to the host, further ones change that copy; the
 * next call that needs the weights uploads every changed array once.
 *
 *   model   not NULL
 *   name    not NULL
 *   value   not NULL, of the parameter's shape, any float type
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND; DLLM_INVALID_ARGUMENT for another shape, the message has both,
 *          and for a number that is not finite, unless the model was made with check off;
 *          DLLM_ABORTED when the weights are lost
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_model_set_param(dllm_model *model, const char *name,
                                          const dllm_tensor *value, dllm_error *err);

/* Lays a tokenizer beside the model, so that every save and checkpoint writes tokenizer.json too.
 *
 * A model loaded from a folder has its tokenizer already; a new one has none.
 *
 *   model   not NULL
 *   tok     not NULL
 *
 * Returns  DLLM_OK; DLLM_INVALID_ARGUMENT when tok has more tokens than the model's vocabulary
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_model_set_tokenizer(dllm_model *model, const dllm_tokenizer *tok,
                                              dllm_error *err);

/* Runs the model once over a batch.
 *
 * Reads ids (batch, seq) i32 and, when there, positions (batch, seq) i32, segments (batch, seq)
 * i32. Writes logits (batch, seq, vocab) f32, and hidden (batch, seq, hidden) f32 when asked for.
 *
 *   model   not NULL
 *   batch   not NULL, holds ids
 *   opts    NULL: defaults; kind "forward": attention, shift, block_length, outputs (list of
 *           logits, hidden, layers), empty_average
 *   task    NULL, or checked every few milliseconds
 *   out     not NULL
 *
 * Returns  DLLM_OK; DLLM_INVALID_ARGUMENT for a missing array, a wrong shape or an id out of the
 *          vocabulary; DLLM_RESOURCE_EXHAUSTED; DLLM_ABORTED when the weights are lost;
 *          DLLM_CANCELLED
 * Owns     out is yours
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_model_forward(dllm_model *model, const dllm_batch *batch,
                                        const dllm_options *opts, dllm_task *task, dllm_batch **out,
                                        dllm_error *err);

#ifdef __cplusplus
}
#endif
#endif
