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
 * Reserved names, all (batch, seq) unless said otherwise:
 *   ids i32   targets i32   weights f32   segments i32   positions i32   sample u8
 *   keep u8 (1: given, never corrupted)   t (batch) f32   flag (batch) u8
 *   limit i32 (a token does not see this place of its row, nor those behind it)
 *   prompt_length (batch) i32: the first tokens of each row are given, as with keep 1
 *   embeddings (batch, seq, hidden) f32: of dllm_model_forward
 *   rows (2) i64: first global row, global rows
 *
 * An objective reads the arrays that its loss has a use for. Any other reserved array is an error
 * that names it, so `sample`, which only a caller's own code reads, does not go to an objective.
 * Arrays of a loss (targets, weights, and what an objective adds) are given together or not at all.
 *
 * Functions that read a batch check it: ids are in the vocabulary, targets too or -1, positions are
 * below the model's maximum, segments are 0 or more, limits are 0 to seq, keep, keys and masks are 0 or 1, weights are
 * finite, times are in 0 to 1. The error names the array, the index, the value and the limit.
 *
 * Lifetime   stands alone.
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
