#ifndef DLLM_BATCH_H
#define DLLM_BATCH_H
/* dllm/batch.h -- named arrays.
 *
 * Token rows, prepared noise, injected masks, anchors and forward results are all batches:
 *
 *     int64_t dims[2] = {2, 128};
 *     dllm_batch_new(&batch, err);
 *     dllm_batch_set(batch, "ids", DLLM_I32, dims, 2, ids, err);
 *     dllm_model_forward(model, batch, NULL, NULL, &result, err);
 *
 * Reserved names, with shape (batch, seq) unless the table has another one:
 *
 *     name            type   shape                  meaning
 *     ids             i32                           tokens
 *     targets         i32                           clean id to train the position on; -1: none
 *     weights         f32                           factor of a position in the loss
 *     segments        i32                           a token sees only its own segment; 0: padding
 *     positions       i32                           positions in the model
 *     limit           i32                           a token sees only positions below its limit
 *     keep            u8                            1: given, never corrupted
 *     prompt_length   i32    (batch)                first tokens of a row are given, as with keep
 *     sample          u8                            read only by the caller's own code
 *     trajectory      i32                           row of a trajectory that shows the token
 *     t               f32    (batch)                time of a row
 *     flag            u8     (batch)                1: the row is on policy (objective "dmax")
 *     embeddings      f32    (batch, seq, hidden)   input of dllm_model_forward in place of ids
 *     rows            i64    (2)                    first global row, number of global rows
 *
 * An objective reads the arrays that its loss uses. Any other reserved array is an error that names
 * it, so `sample` must not be in a batch for an objective. Arrays of a loss (targets, weights, and
 * what an objective adds) must be in a batch together, or none of them.
 *
 * Functions that read a batch check it. Ids are in the vocabulary, targets too or -1. Positions are
 * below the model's maximum, segments are 0 or more, limits are 0 to seq. keep, keys and masks are
 * 0 or 1. Weights are finite, times are in 0 to 1. The error names the array, the index, the value
 * and the limit.
 *
 * Lifetime   a batch needs no other object.
 * Threads    one call at a time per batch; reads may run together.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/** Creates an empty batch.
 *
 *   out   not NULL
 *
 * Returns  DLLM_OK
 * Owns     caller owns out
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_batch_new(dllm_batch **out, dllm_error *err);

/** Releases a batch.
 *
 *   batch   NULL: does nothing
 *
 * Returns  nothing
 * Owns     releases batch
 * Threads  any
 * Since    1
 */
DLLM_API void dllm_batch_release(dllm_batch *batch);

/** Copies an array into the batch under a name; replaces an array of that name.
 *
 *   batch   not NULL
 *   name    not NULL, not empty
 *   dtype   one of DLLM_F32 to DLLM_U32
 *   dims    NULL only when rank is 0; each 0 or more
 *   rank    0 to 8
 *   data    NULL only when a dimension is 0; row-major, product(dims) elements of dtype
 *
 * Returns  DLLM_OK; DLLM_INVALID_ARGUMENT, also for a reserved name with another dtype or rank, and
 *          a name of more than 256 bytes
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_batch_set(dllm_batch *batch, const char *name, int32_t dtype,
                                    const int64_t *dims, int64_t rank, const void *data,
                                    dllm_error *err);

/** Copies one array into a new tensor.
 *
 *   batch   not NULL
 *   name    not NULL
 *   out     not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND, the hint names the nearest
 * Owns     caller owns out
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_batch_array(const dllm_batch *batch, const char *name, dllm_tensor **out,
                                      dllm_error *err);

/** Returns the number of arrays.
 *
 *   batch   NULL: 0
 *
 * Returns  arrays
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API int64_t dllm_batch_count(const dllm_batch *batch);

/** Returns the name of an array, in the order in which they were first set.
 *
 *   batch   NULL: NULL
 *   index   0 to dllm_batch_count - 1
 *
 * Returns  text; NULL when index is out of range
 * Owns     result is valid until the batch is changed or released
 * Threads  any
 * Since    1
 */
DLLM_API const char *dllm_batch_name(const dllm_batch *batch, int64_t index);

#ifdef __cplusplus
}
#endif
#endif
