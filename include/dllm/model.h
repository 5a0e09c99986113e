#ifndef DLLM_MODEL_H
#define DLLM_MODEL_H
/* dllm/model.h -- load, create, run and save a model.
 *
 *     dllm_model *model;
 *     if (dllm_model_load(engine, "path/to/folder", NULL, NULL, &model, err)) return fail(err);
 *     dllm_model_forward(model, batch, NULL, NULL, &result, err);
 *     dllm_batch_array(result, "logits", &logits, err);
 *
 * A model is a config (as Hugging Face's config.json) and named parameters (as in its safetensors).
 * Its version increases with every change of weights.
 *
 * Lifetime   a model keeps its engine alive; trainers and decoders keep their model alive.
 * Threads    functions that only read may be called at any time. Functions that read weights
 *            (param, save) wait while a training step writes the weights, and read all of them in
 *            one version. forward, set_param, set_tokenizer, a new trainer and training: one call
 *            at a time per model. set_param waits for the end of a running step. Decoders of the
 *            model may step meanwhile, except during dllm_trainer_new, which may change the
 *            vocabulary and the types of the model.
 *
 * Lost       a step that fails on the device, or runs out of memory while it writes, loses the
 *            weights. The step returns its own failure. After it every call that needs the weights
 *            (param, save, forward, a decoding step) fails at once with DLLM_ABORTED, until a
 *            checkpoint is restored into the trainer.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/** Loads a model from a Hugging Face folder, a GGUF file, a checkpoint folder or a run folder.
 *
 * The options of kind "model":
 *
 *     dtype         weight format of matrices; auto and keep: the format of the file
 *     attention     auto causal bidirectional block_causal; auto: as the config
 *     shift         1: the logits of position i predict token i + 1; -1: as the config
 *     mask_token    text or id of the mask token; empty: found by itself
 *     cache_dtype   format of keys and values in decoding; auto: as the arithmetic
 *     check         finite: a weight that is not finite is an error; off: it is allowed
 *     heads         edit: adds the heads of edit flows to a file without them; auto: as the file
 *     adapter       folder of a LoRA adapter, which becomes adapter "default" (dllm/adapter.h)
 *     seed          seed of the weights of new heads
 *
 * With dtype = keep every tensor is stored in the format of the file: 34 bytes for 32 weights in
 * q8_0, 144 bytes for 256 weights in q4_k, 2 bytes for each weight in f16. Layers of one matrix
 * that differ in type, the types Q2_K, Q3_K and IQ4_XS, and fp8 (e4m3) or int8 with scales of
 * blocks become q8_0. Folders of int8 with scales of rows stay int8. A matrix whose rows are
 * not whole blocks of 256 (q4_k, q5_k, q6_k) becomes q8_0 when its rows are whole blocks of 32,
 * else f32. Only the cpu engine has block formats and f16. On an engine of arithmetic f32 products
 * have the bits of the dequantized model.
 *
 * New heads of edit flows begin as a copy of the model's own head; their rates are drawn from seed.
 *
 * A checkpoint is loaded with its adapters and its other networks (dllm_model_add_network). A
 * network named "teacher" is left out, because only losses read it.
 *
 * Option dtype is auto, keep, or a weight format, such as f32, int8 or q4_k. The schema of kind
 * "model" (dllm_options_schema) lists the names.
 *
 *   engine   not NULL
 *   path     not NULL, a folder with config.json and safetensors, a .gguf file, a checkpoint
 *            folder, or a run folder, which means its latest complete checkpoint. A folder without
 *            safetensors may have the pytorch_model.bin of PyTorch 1.6 and later; only its tensors
 *            are read. Any of them may be in an object store ("s3://bucket/folder", "gs://...");
 *            only the needed ranges are read. Or a name of the hub ("org/name") whose files are in
 *            the cache (dllm/hub.h)
 *   opts     NULL: defaults; kind "model": dtype, attention, shift, mask_token, cache_dtype (auto
 *            f32 bf16 int8), check (finite off), weights (live ema), heads (auto edit), adapter,
 *            seed
 *   task     NULL, or checked every few milliseconds; progress in bytes
 *   out      not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND for a missing file or tensor; DLLM_UNAVAILABLE for an object
 *          store that does not answer; DLLM_DATA_LOSS for a damaged file, the message names file,
 *          tensor, expected and found, or for a weight that is not finite unless check is off, the
 *          message names tensor and index; DLLM_OUT_OF_RANGE for a weight that dtype makes
 *          infinite; DLLM_FAILED_PRECONDITION for a folder with the weights of two models, or for a
 *          checkpoint that refers to a part whose files changed; DLLM_UNIMPLEMENTED for an unknown
 *          family or tensor type, a key of the config or of the adapter's config that changes the
 *          numbers, or a dtype the engine does not multiply; DLLM_RESOURCE_EXHAUSTED when the
 *          parameters need more than the machine or the engine's memory_limit has, before memory is
 *          taken; DLLM_CANCELLED
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
 *                 cache_dtype, check, heads (edit: with the heads of edit flows), adapter
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
 * The folder appears complete or not at all: files are written to a temporary folder, which is
 * renamed. It holds the base alone: a warning in the log names other networks of the model that it
 * leaves out, except a part named "teacher". A checkpoint of a trainer holds them all.
 *
 *   model   not NULL
 *   path    not NULL, the folder to create
 *   opts    NULL: defaults; kind "save": dtype, max_shard_bytes, overwrite (a folder that a save
 *           wrote; it is removed after the new folder is complete), merge (1: the products of the
 *           adapters are added to the weights that are written; the model keeps its adapters)
 *   task    NULL, or checked every few milliseconds; progress in bytes
 *
 * Returns  DLLM_OK; DLLM_ALREADY_EXISTS unless overwrite is 1, and when the folder holds a file
 *          that was not written by a save, the message names it; DLLM_PERMISSION_DENIED;
 *          DLLM_RESOURCE_EXHAUSTED when the disk is full; DLLM_ABORTED when the weights are lost;
 *          DLLM_UNAVAILABLE when another save to this path has not ended after 30 s;
 *          DLLM_OUT_OF_RANGE for a weight that dtype makes infinite; DLLM_UNIMPLEMENTED for a model
 *          with adapters unless merge is 1; DLLM_CANCELLED
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_model_save(const dllm_model *model, const char *path,
                                     const dllm_options *opts, dllm_task *task, dllm_error *err);

/** Writes the weights of a model in another format: a GGUF file, or a folder of safetensors.
 *
 * The function works tensor by tensor and has at most one tensor in memory. The result appears
 * complete or not at all. Vectors and routers are f32. A matrix whose rows are not whole blocks of
 * 256 (q4_k, q5_k, q6_k) becomes q8_0 when its rows are whole blocks of 32, else f32. A GGUF file
 * keeps its metadata. For a folder, the config and a byte-level BPE tokenizer are written as
 * metadata.
 *
 * The report is a JSON object: format, tensors, bytes_before, bytes_after, kinds and notes (list of
 * sentences). Each of kinds has name, format, tensors, bytes_before, bytes_after and error. The
 * error of a block is the largest |stored - wanted| over the largest |wanted|; error is the largest
 * of all blocks.
 *
 *   path     not NULL, as dllm_model_load
 *   target   not NULL, a path that ends in .gguf, or a folder to create (f32, bf16, f16, and nf4 or
 *            fp4 as bitsandbytes writes them)
 *   opts     NULL: defaults; kind "quantize": format, double_quant, weights (live ema), overwrite.
 *            format is a weight format, as dllm_options_schema("quantize") lists them; auto is the
 *            float type that most numbers of the input have, or bf16 for a quantized input
 *   task     NULL, or checked every few milliseconds; progress in bytes
 *   out      not NULL; gets the report
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND; DLLM_DATA_LOSS for a damaged file, or for a number that is not
 *          finite and that the format would hide; DLLM_ALREADY_EXISTS unless overwrite is 1;
 *          DLLM_UNIMPLEMENTED for a family that has no architecture in GGUF, and for a format that
 *          the target cannot hold (int8); DLLM_OUT_OF_RANGE for a weight that the format makes
 *          infinite; DLLM_FAILED_PRECONDITION for a folder with the weights of two models;
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

/** Writes a description of the model as a JSON object.
 *
 *     family, attention, shift, runs, bytes
 *     end_tokens    ids that end an answer, from all files of the model; for option stop of a slot
 *     objective     that a run trained the weights with; absent when it is not known
 *     generation    the content of generation_config.json, {} without that file
 *     storage       per stack: name, shape, dtype, format, trainable; quantized: rounding_error
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

/** Copies one parameter, in f32 or in the exact type it is stored in.
 *
 * Parameters of equal layers are stored in one array, and a call reads the whole array. To export a
 * model, use dllm_model_save.
 *
 *   model   not NULL
 *   name    not NULL
 *   out     not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND, the hint names the nearest; DLLM_ABORTED when the weights are
 *          lost
 * Owns     caller owns out
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_model_param(const dllm_model *model, const char *name, dllm_tensor **out,
                                      dllm_error *err);

/** Replaces one parameter and increases the version. Waits for a running training step.
 *
 * The first call for an array of equal layers copies the array to the host, and later calls change
 * that copy. The next call that needs the weights uploads every changed array once.
 *
 *   model   not NULL
 *   name    not NULL
 *   value   not NULL, of the parameter's shape, any float type
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND; DLLM_INVALID_ARGUMENT for another shape, the message has both;
 *          DLLM_INVALID_ARGUMENT for a number that is not finite and DLLM_OUT_OF_RANGE for a number
 *          that the weight's format makes infinite, both unless the model was created with check
 *          off; DLLM_ABORTED when the weights are lost
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

/** Adds the network of another model as a part that losses can read, such as a teacher.
 *
 * The part shares the arrays of the other model, so they are in memory once. It keeps its numbers
 * when the other model is trained, and no objective of the library trains it. A pass of this model
 * does not read it, and dllm_model_save leaves it out. Objectives read the part that is named
 * "teacher" with option teacher = model (dllm/objective.h).
 *
 *   model   not NULL
 *   other   not NULL, a model of the same engine, without adapters; its own networks are not added
 *   name    not NULL, 1 to 64 letters, digits and _ - :
 *
 * Returns  DLLM_OK; DLLM_ALREADY_EXISTS when the model has a part of that name;
 *          DLLM_INVALID_ARGUMENT for another name or a model of another engine;
 *          DLLM_FAILED_PRECONDITION when the other model has adapters: merge them first
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_model_add_network(dllm_model *model, const dllm_model *other,
                                            const char *name, dllm_error *err);

/** Removes a part that dllm_model_add_network added.
 *
 *   model   not NULL
 *   name    not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND when the model has no such network, the hint has the names
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_model_remove_network(dllm_model *model, const char *name,
                                               dllm_error *err);

/** Runs the model once over a batch.
 *
 * The batch has ids i32 (batch, seq), and may have positions i32 (batch, seq) and segments i32
 * (batch, seq). The option outputs chooses the arrays of the result:
 *
 *     logits       f32 (batch, seq, vocab), the default
 *     hidden       f32 (batch, seq, hidden)
 *     layers       the hidden states of every layer
 *     heads        heads.NAME, the result of every other head
 *
 * logits[i] predicts token i, also with shift 1: there it comes from the state of token i - 1, and
 * logits[0] from that of token 0. With option shift 0 row i comes from the state of token i.
 *
 *   model   not NULL
 *   batch   not NULL, holds ids
 *   opts    NULL: defaults; kind "forward": attention, shift, block_length, outputs (list),
 *           empty_average
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
