#ifndef DLLM_ADAPTER_H
#define DLLM_ADAPTER_H
/* dllm/adapter.h -- adapters of a model, such as LoRA.
 *
 *     dllm_options_new("adapter", &opts, err);
 *     dllm_options_set_i64(opts, "rank", 16, err);
 *     dllm_model_add_adapter(model, "default", opts, NULL, err);
 *     dllm_trainer_new(model, objective, NULL, &trainer, err);
 *     ...
 *     dllm_model_save_adapter(model, "my-adapter", "default", NULL, err);
 *
 * An adapter adds a product to chosen matrices of a model: W x becomes W x + scale factor B A x.
 * For W (out, in) the matrix A is (rank, in), and B is (out, rank). The factor is alpha / rank, or
 * alpha / sqrt(rank) with rslora. A and B are f32. A new B is zero, so the results of the model do
 * not change at first.
 *
 * With option dora (DoRA, Liu et al. 2024) each row of V = W + factor B A also has a trained
 * length m, f32(out), and W x becomes W x + scale (m / |V| V - W) x. m begins as |W|. Every pass
 * computes the norms |V| again, until the adapter is merged.
 *
 * Kind ia3 is (IA)3 (Liu et al. 2022): each row of W and its number of the bias are multiplied by
 * 1 + scale (l - 1), where l is trained and begins as ones. Of the modules of option feedforward
 * the inputs x are multiplied, in place of the rows. Matrices of experts cannot have it.
 *
 * A trainer of a model with adapters trains them, and nothing else. The base keeps its numbers and
 * its format, which may be one of blocks (q8_0, q4_k). A checkpoint then holds the adapters alone,
 * when the base still has the numbers of the folder or file that it was loaded from.
 *
 * The options of kind "adapter":
 *
 *     option     values        meaning
 *     kind       lora dora ia3 what the adapter adds to a matrix; an option of one kind is refused
 *                              for another one
 *     rank       1 to 65536    rows of A and columns of B
 *     alpha      0 to 1e9      numerator of the factor; 0: twice the rank
 *     rslora     0 1           1: the factor is alpha / sqrt(rank)
 *     dora       0 1           1: kind dora (DoRA); matrices of experts cannot have it
 *     dropout    0 to 0.99     part of the inputs of A that a training step sets to 0
 *     feedforward    list      ia3: modules whose inputs are multiplied, as for targets ("down")
 *     targets    list          modules with an adapter: ends of their names ("q_proj"), names of
 *                              dllm (q k v o gate up down), texts with *, or "all-linear": every
 *                              matrix of a layer, except for routers and gates
 *     exclude    list          modules without one, as for targets
 *     layers     list          numbers and ranges of layers ("0-11"); empty: all layers
 *     rank_pattern   list      ranks of some modules, "q_proj=4": a regular expression for the end
 *                              of a module's name; the first that matches counts
 *     alpha_pattern  list      alphas of some modules, "q_proj=8"
 *     modules_to_save  list    modules that the adapter has as f32 copies, which are trained
 *                              whole: ends of names ("embed_tokens", "lm_head", "norm")
 *     seed       0 to 2^53     seed of the first values
 *
 * A model uses all of its adapters at once, and their changes are added. A request of a decoder or
 * of a generator may choose: option adapters is a list such as "math:0.7", "code:0.3". Requests of
 * one decoder may have different adapters. Each gets the numbers of the model with its own alone.
 *
 * A folder of an adapter has the files of PEFT, the library of Hugging Face: adapter_config.json
 * and adapter_model.safetensors. Both programs read what the other one writes. dllm writes a third
 * file, dllm.json: the attention, the shift and the mask token that a run used. Option adapter of a
 * model reads it. dllm_model_load_adapter adds the numbers alone, and logs a warning when the model
 * has others.
 *
 * Lifetime   an adapter belongs to its model.
 * Threads    dllm_model_adapters and dllm_model_save_adapter only read. The other functions change
 *            the model: one call at a time, and not while a trainer or a decoder of the model
 *            computes. Trainers that exist are made again after such a call: their steps may fail
 *            with DLLM_FAILED_PRECONDITION. Decoders see the change at their next step.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/** Adds a new adapter, which changes no result until it is trained.
 *
 * Memory grows by 4 bytes for each number of A and B: rank x (out + in) for each chosen matrix.
 *
 *   model   not NULL
 *   name    not NULL: letters, digits, _ and -; "default" is the name that dllm train gives
 *   opts    NULL: defaults; options of kind "adapter"
 *   task    NULL, or checked every few milliseconds
 *
 * Returns  DLLM_OK; DLLM_ALREADY_EXISTS when the model has an adapter of that name; DLLM_NOT_FOUND
 *          when the targets choose no matrix, or when a word of targets or exclude names none, the
 *          hint lists the matrices; DLLM_UNIMPLEMENTED for a target that names an embedding, the
 *          head or some of the experts of a layer, and for a copy of an embedding that is also the
 *          head; DLLM_INVALID_ARGUMENT for layers that are not a range or that the model lacks,
 *          for a name with other characters, and for an option of another kind;
 *          DLLM_RESOURCE_EXHAUSTED; DLLM_ABORTED when the weights are lost; DLLM_CANCELLED. When
 *          the call fails, the model is unchanged
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_model_add_adapter(dllm_model *model, const char *name,
                                            const dllm_options *opts, dllm_task *task,
                                            dllm_error *err);

/** Adds an adapter with the numbers of a folder in the format of PEFT.
 *
 *   model   not NULL
 *   path    not NULL, a folder with adapter_config.json and adapter_model.safetensors
 *   name    not NULL, as in dllm_model_add_adapter
 *   task    NULL, or checked every few milliseconds; progress in bytes
 *
 * Returns  DLLM_OK; DLLM_ALREADY_EXISTS when the model has an adapter of that name; DLLM_NOT_FOUND
 *          for a missing file, and for a matrix that the model lacks; DLLM_INVALID_ARGUMENT for
 *          shapes and values that do not fit; DLLM_UNIMPLEMENTED for an adapter of another
 *          type, and for a setting that changes the numbers, the message names the key;
 *          DLLM_DATA_LOSS for a damaged file; DLLM_RESOURCE_EXHAUSTED; DLLM_ABORTED when the
 *          weights are lost;
 *          DLLM_CANCELLED. When the call fails, the model is unchanged
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_model_load_adapter(dllm_model *model, const char *path, const char *name,
                                             dllm_task *task, dllm_error *err);

/** Saves an adapter as a folder that PEFT and dllm_model_load_adapter read.
 *
 * The numbers are f32, and do not have the scale of dllm_model_set_adapter_scale. The config has
 * the place that the base was loaded from as base_model_name_or_path. It is null when the base has
 * other numbers now. The folder appears complete or not at all.
 *
 *   model   not NULL
 *   path    not NULL, the folder to create
 *   name    not NULL, an adapter of the model
 *   task    NULL, or checked every few milliseconds; progress in bytes
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND for an unknown adapter; DLLM_ALREADY_EXISTS when something is at
 *          path; DLLM_PERMISSION_DENIED; DLLM_RESOURCE_EXHAUSTED when the disk is full;
 *          DLLM_ABORTED when the weights are lost; DLLM_UNAVAILABLE when another save to this path
 *          has not ended after 30 s; DLLM_CANCELLED
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_model_save_adapter(const dllm_model *model, const char *path,
                                             const char *name, dllm_task *task, dllm_error *err);

/** Adds the change of an adapter to the weights of the base, and removes the adapter.
 *
 * The weights keep their format, and a format of blocks rounds the sums. Option merge of
 * dllm_model_save writes such sums in f32, and changes nothing in the model.
 *
 *   model   not NULL
 *   name    an adapter of the model; NULL: every adapter at once
 *   task    NULL, or checked every few milliseconds
 *
 * Returns  DLLM_OK, also when name is NULL and the model has no adapter; DLLM_NOT_FOUND for an
 *          unknown adapter; DLLM_FAILED_PRECONDITION when the change of another adapter
 *          depends on the weights, as the lengths of DoRA do; DLLM_INVALID_ARGUMENT for a sum
 *          that is not finite; DLLM_OUT_OF_RANGE for a sum that the weight's format makes infinite;
 *          DLLM_RESOURCE_EXHAUSTED; DLLM_ABORTED when the weights are lost; DLLM_CANCELLED. When
 *          the call fails, the model is unchanged
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_model_merge_adapter(dllm_model *model, const char *name, dllm_task *task,
                                              dllm_error *err);

/** Removes an adapter and frees its memory.
 *
 *   model   not NULL
 *   name    not NULL, an adapter of the model
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND, the hint names the adapters of the model
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_model_remove_adapter(dllm_model *model, const char *name,
                                               dllm_error *err);

/** Multiplies the change that an adapter makes by a number from now on.
 *
 *   model   not NULL
 *   name    not NULL, an adapter of the model
 *   scale   -1e9 to 1e9; 0: the adapter is off; 1: as it was trained; an adapter with
 *           modules_to_save takes 0 and 1 alone
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND, the hint names the adapters of the model;
 *          DLLM_INVALID_ARGUMENT for another number
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_model_set_adapter_scale(dllm_model *model, const char *name, double scale,
                                                  dllm_error *err);

/** Writes the adapters of a model as a JSON list, in the order in which they were added.
 *
 *     name       of the adapter
 *     kind       option kind
 *     rank       of its matrices, unless a pattern of its file sets another one; 0: of a kind
 *                without ranks
 *     alpha      numerator of the factor
 *     rslora     true: the factor is alpha / sqrt(rank)
 *     dora       true: the rows have trained lengths
 *     dropout    part of the inputs that training drops
 *     feedforward  of kind ia3: the modules whose inputs are multiplied
 *     modules_to_save  names of the modules that it has as copies
 *     scale      of dllm_model_set_adapter_scale
 *     modules    number of matrices of the base with an adapter
 *     params     numbers of its tensors
 *     bytes      memory of these numbers
 *
 *   model   not NULL
 *   out     not NULL; [] for a model without adapters
 *
 * Returns  DLLM_OK
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_model_adapters(const dllm_model *model, dllm_buffer *out,
                                         dllm_error *err);

#ifdef __cplusplus
}
#endif
#endif
