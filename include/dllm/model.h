#ifndef DLLM_MODEL_H
#define DLLM_MODEL_H
/* dllm/model.h -- load, create, run and save a model.
 *
 *     dllm_model *model;
 *     if (dllm_model_load(engine, "path/to/folder", NULL, NULL, &model, err)) return fail(err);
 *     dllm_model_forward(model, batch, NULL, NULL, &result, err);
 *     dllm_batch_array(result, "logits", &logits, err);
 *
 * A model is a config (as Hugging Face's config.json) and named parameters (as in its
 * safetensors). Its version increases with every change of weights.
 *
 * Lifetime   a model keeps its engine alive; trainers and decoders keep their model alive.
 * Threads    functions that only read may be called at any time. Those that read weights (param, save) wait
 *            while a training step writes them and get all of one version. forward, set_param,
 *            set_tokenizer, a new trainer and training: one call at a time per model; set_param waits
 *            for the end of a running step. Decoders of the model may step meanwhile, except during
 *            dllm_trainer_new, which may change the vocabulary and the types of the model.
 *
 * Lost       a step that fails on the device, or out of memory while it writes, loses the weights: the
 *            step returns its own failure, and after that all calls that need the weights (param,
 *            save, forward, a decoding step) fail at once with DLLM_ABORTED, until a checkpoint is
 *            restored into the trainer.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/** Loads a model from a Hugging Face folder, a GGUF file, a checkpoint folder or a run folder.
 *
 *   engine   not NULL
 *   path     not NULL, a folder with config.json and safetensors (or, without any, the
 *            pytorch_model.bin of PyTorch 1.6 and later, of which tensors alone are read), a .gguf file,
 *            a checkpoint folder, or a run folder, which means its latest complete checkpoint; also one
 *            in an object store ("s3://bucket/folder", "gs://..."), of which the needed ranges are read
 *   opts     NULL: defaults; kind "model": dtype (auto keep f32 bf16 f16 int8 q8_0 q4_0 q4_1 q5_0 q5_1
 *            q4_k q5_k q6_k iq4_nl mxfp4), attention, shift, mask_token, cache_dtype (auto f32 bf16 int8),
 *            check (finite off), heads (auto edit): edit adds the heads of edit flows where the
 *            file has none, which begin as the model's own head, and rates drawn from seed.
 *            dtype is the weight format of matrices: keep stores every tensor in
 *            the format of the file (34 bytes for 32 weights in q8_0, 144 for 256 in q4_k, 2 bytes each
 *            in f16); layers of one matrix that differ in type, and types Q2_K, Q3_K, IQ4_XS, become q8_0.
 *            On an engine of arithmetic f32 products have the bits of the dequantized model. Formats of
 *            blocks and f16: only on the cpu engine. A matrix whose rows are not whole blocks of 256 (q4_k, q5_k,
 *            q6_k) is q8_0 where they are whole blocks of 32, else f32
 *   task     NULL, or checked every few milliseconds; progress in bytes
 *   out      not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND for a missing file or tensor; DLLM_UNAVAILABLE for an object store
 *          that does not answer; DLLM_DATA_LOSS for a damaged file, the message names file, tensor,
 *          expected and found, or for a weight that is not finite unless check is off, the message
 *          names tensor and index; DLLM_OUT_OF_RANGE for a weight that dtype makes infinite;
 *          DLLM_FAILED_PRECONDITION for a folder with the weights of two models; DLLM_UNIMPLEMENTED
 *          for an unknown family or tensor type, a key of the config or of the adapter's that
 *          changes the numbers, or a dtype the engine does not multiply; DLLM_RESOURCE_EXHAUSTED
 *          when the parameters need more than the machine or the engine's memory_limit has, before
 *          memory is taken; DLLM_CANCELLED
 * Owns     caller owns out, which keeps engine
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_model_load(dllm_engine *engine, const char *path,
                                     const dllm_options *opts, dllm_task *task, dllm_model **out,
                                     dllm_error *err);

/** Loads a model from files held in memory.
 *
 *   engine   not NULL
 *   source   not NULL, holds the files of a model folder or one .gguf file
 *   opts     NULL: defaults; kind "model"
 *   task     NULL, or checked every few milliseconds; progress in bytes
 *   out      not NULL
 *
 * Returns  as dllm_model_load
 * Owns     caller owns out, which keeps engine, source
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_model_load_source(dllm_engine *engine, const dllm_source *source,
                                            const dllm_options *opts, dllm_task *task,
                                            dllm_model **out, dllm_error *err);

/** Creates a model with random weights, drawn from the config's initializer_range and option seed.
 *
 *   engine        not NULL
 *   config_json   not NULL, the content of a config.json
 *   size          bytes of config_json, 0 or more
 *   opts          NULL: defaults; kind "model": seed, dtype, attention, shift, mask_token,
 *                 cache_dtype, check, heads (edit: with the heads of edit flows), adapter (a folder)
 *   task          NULL, or checked every few milliseconds
 *   out           not NULL
 *
 * Returns  DLLM_OK; DLLM_INVALID_ARGUMENT for a config that is not valid, the message names the
 *          key; DLLM_UNIMPLEMENTED for an unknown family; DLLM_RESOURCE_EXHAUSTED when the
 *          parameters need more than the machine or the engine's memory_limit has, before memory is
 *          taken; DLLM_CANCELLED
 * Owns     caller owns out, which keeps engine
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_model_new(dllm_engine *engine, const char *config_json, int64_t size,
                                    const dllm_options *opts, dllm_task *task, dllm_model **out,
                                    dllm_error *err);

/** Saves a model as a Hugging Face folder: config.json and safetensors.
 *
 * The folder appears complete or not at all: files are written to a temporary folder, which is renamed.
 *
 *   model   not NULL
 *   path    not NULL, the folder to create
 *   opts    NULL: defaults; kind "save": dtype, max_shard_bytes, overwrite (a folder that a
 *           save wrote; it is removed after the new one is complete)
 *   task    NULL, or checked every few milliseconds; progress in bytes
 *
 * Returns  DLLM_OK; DLLM_ALREADY_EXISTS unless overwrite is 1, and when the folder holds a file that
 *          was not written by a save; the message names it; DLLM_PERMISSION_DENIED;
 *          DLLM_RESOURCE_EXHAUSTED when the disk is full; DLLM_ABORTED when the weights are lost;
 *          DLLM_UNAVAILABLE when another save to this path has not ended after 30 s;
 *          DLLM_OUT_OF_RANGE for a weight that dtype makes infinite; DLLM_CANCELLED
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_model_save(const dllm_model *model, const char *path,
                                     const dllm_options *opts, dllm_task *task, dllm_error *err);

/** Writes the weights of a model in another format: a GGUF file, or a folder of safetensors.
 *
 * Works tensor by tensor: no more than one is in memory. The result appears complete or not at all. Vectors and
 * routers are f32; rows that are not whole blocks of 256 (q4_k, q5_k, q6_k) are q8_0 where they are whole blocks of 32,
 * else f32. A GGUF file keeps its metadata; of a folder, the config and a byte-level BPE tokenizer are written as
 * metadata.
 *
 *   path     not NULL, what dllm_model_load takes
 *   target   not NULL, a path that ends in .gguf, or a folder to create (f32, bf16, f16)
 *   opts     NULL: defaults; kind "quantize": format (q8_0 q4_k q6_k q4_0 auto f32 bf16 f16 int8 q4_1 q5_0 q5_1 q5_k
 *            iq4_nl mxfp4), overwrite; auto is the float type that most numbers of the input have, bf16 of a
 *            quantized input
 *   task     NULL, or checked every few milliseconds; progress in bytes
 *   out      not NULL, filled with a JSON object: format, tensors, bytes_before, bytes_after, kinds (list of name,
 *            format, tensors, bytes_before, bytes_after, error, the largest |stored - wanted| over the largest
 *            |wanted| of a block), notes (list of sentences)
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND; DLLM_DATA_LOSS for a damaged file; DLLM_ALREADY_EXISTS unless overwrite is 1;
 *          DLLM_UNIMPLEMENTED for a family that GGUF has no architecture for, and for a format that the target
 *          cannot hold (int8); DLLM_OUT_OF_RANGE for a weight that the format makes infinite;
 *          DLLM_FAILED_PRECONDITION for a folder with the weights of two models;
 *          DLLM_RESOURCE_EXHAUSTED when the disk is full; DLLM_CANCELLED
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_model_quantize(const char *path, const char *target,
                                         const dllm_options *opts, dllm_task *task,
                                         dllm_buffer *out, dllm_error *err);

/** Releases a model.
 *
 *   model   NULL: does nothing
 *
 * Returns  nothing
 * Owns     releases model
 * Threads  any
 * Since    1
 */
DLLM_API void dllm_model_release(dllm_model *model);

/** Writes the config as JSON, with the keys of Hugging Face's config.json and a "dllm" object.
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

/** Writes a description of the model as a JSON object: family, attention, shift, runs, bytes, end_tokens,
 * generation, storage (per stack: name, shape, dtype, format, trainable, of quantized ones rounding_error).
 *
 * end_tokens are the ids that end an answer, of all files of the model: for option stop of kind "slot".
 * generation is generation_config.json, {} where there is none.
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

/** Reads a number of the model.
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

/** Returns the version of the weights, which increases with every change.
 *
 *   model   NULL: 0
 *
 * Returns  1 or more
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API int64_t dllm_model_version(const dllm_model *model);

/** Returns the number of named parameters.
 *
 *   model   NULL: 0
 *
 * Returns  parameters, 1 or more
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API int64_t dllm_model_param_count(const dllm_model *model);

/** Returns the name of a parameter, as in the Hugging Face checkpoint.
 *
 *   model   NULL: NULL
 *   index   0 to dllm_model_param_count - 1
 *
 * Returns  text; NULL when index is out of range
 * Owns     result is valid until the model is released
 * Threads  any
 * Since    1
 */
DLLM_API const char *dllm_model_param_name(const dllm_model *model, int64_t index);

/** Copies one parameter, in f32 or the exact type it is stored in.
 *
 * Parameters of equal layers are stored in one array, and a call reads all of it: to export a model,
 * use dllm_model_save.
 *
 *   model   not NULL
 *   name    not NULL
 *   out     not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND, the hint names the nearest; DLLM_ABORTED when the weights are lost
 * Owns     caller owns out
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_model_param(const dllm_model *model, const char *name, dllm_tensor **out,
                                      dllm_error *err);

/** Replaces one parameter and increases the version. Waits for a running training step.
 *
 * The first call for an array of equal layers copies it to the host, further ones change that copy; the
 * next call that needs the weights uploads every changed array once.
 *
 *   model   not NULL
 *   name    not NULL
 *   value   not NULL, of the parameter's shape, any float type
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND; DLLM_INVALID_ARGUMENT for another shape, the message has both,
 *          and for a number that is not finite, DLLM_OUT_OF_RANGE for one that the weight's format
 *          makes infinite, both unless the model was created with check off; DLLM_ABORTED when the
 *          weights are lost
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_model_set_param(dllm_model *model, const char *name,
                                          const dllm_tensor *value, dllm_error *err);

/** Attaches a tokenizer to the model; every save and checkpoint then writes tokenizer.json too.
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

/** Runs the model once over a batch.
 *
 * Reads ids (batch, seq) i32 and, when present, positions (batch, seq) i32, segments (batch, seq)
 * i32. Writes logits (batch, seq, vocab) f32, and hidden (batch, seq, hidden) f32 on request.
 *
 *   model   not NULL
 *   batch   not NULL, holds ids
 *   opts    NULL: defaults; kind "forward": attention, shift, block_length, outputs (list of
 *           logits, hidden, layers, heads: heads.NAME of every other head), empty_average
 *   task    NULL, or checked every few milliseconds
 *   out     not NULL
 *
 * Returns  DLLM_OK; DLLM_INVALID_ARGUMENT for a missing array, a wrong shape or an id out of the
 *          vocabulary; DLLM_RESOURCE_EXHAUSTED; DLLM_ABORTED when the weights are lost;
 *          DLLM_CANCELLED
 * Owns     caller owns out
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
