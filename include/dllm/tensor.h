#ifndef DLLM_TENSOR_H
#define DLLM_TENSOR_H
/* dllm/tensor.h -- arrays as input and output.
 *
 * A tensor has an element type, dimensions, and bytes in row-major order that never change:
 *
 *     int64_t dims[2] = {2, 3};
 *     dllm_tensor_new(DLLM_F32, dims, 2, values, &tensor, err);
 *     dllm_model_set_param(model, "lm_head.weight", tensor, err);
 *
 * Lifetime   a tensor needs no other object, also when it was read from a model, a batch or a
 *            checkpoint.
 * Threads    any thread may read.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/** Creates a tensor from a copy of an array.
 *
 *   dtype   one of DLLM_F32 to DLLM_U32
 *   dims    NULL only when rank is 0; each 0 or more
 *   rank    0 to 8; 0: one number
 *   data    NULL only when a dimension is 0; row-major, product(dims) elements of dtype
 *   out     not NULL
 *
 * Returns  DLLM_OK; DLLM_INVALID_ARGUMENT; DLLM_RESOURCE_EXHAUSTED
 * Owns     caller owns out
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_tensor_new(int32_t dtype, const int64_t *dims, int64_t rank,
                                     const void *data, dllm_tensor **out, dllm_error *err);

/** Releases a tensor.
 *
 *   tensor   NULL: does nothing
 *
 * Returns  nothing
 * Owns     releases tensor
 * Threads  any
 * Since    1
 */
DLLM_API void dllm_tensor_release(dllm_tensor *tensor);

/** Returns the element type.
 *
 *   tensor   NULL: 0
 *
 * Returns  one of DLLM_F32 to DLLM_U32
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API int32_t dllm_tensor_dtype(const dllm_tensor *tensor);

/** Returns the number of dimensions.
 *
 *   tensor   NULL: 0
 *
 * Returns  0 to 8
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API int64_t dllm_tensor_rank(const dllm_tensor *tensor);

/** Returns the length of one dimension.
 *
 *   tensor   NULL: 0
 *   axis     0 to rank - 1
 *
 * Returns  elements along axis; 0 when axis is out of range
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API int64_t dllm_tensor_dim(const dllm_tensor *tensor, int64_t axis);

/** Returns a pointer to the elements, row-major.
 *
 *   tensor   NULL: NULL
 *
 * Returns  the first element; NULL when the tensor is not in host memory
 * Owns     result is valid until the tensor is released
 * Threads  any
 * Since    1
 */
DLLM_API const void *dllm_tensor_data(const dllm_tensor *tensor);

/** Copies all elements, converted to another element type.
 *
 * A conversion of floats to floats rounds to nearest even. Floats become integers only when every
 * value is whole and fits.
 *
 *   tensor     not NULL
 *   dtype      one of DLLM_F32 to DLLM_U32
 *   dst        NULL only when dst_size is 0
 *   dst_size   bytes, 0 or more; exactly elements x size of dtype
 *
 * Returns  DLLM_OK; DLLM_OUT_OF_RANGE when dst_size is wrong, the message has the needed size;
 *          DLLM_INVALID_ARGUMENT for a conversion that would lose more than rounding
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_tensor_read(const dllm_tensor *tensor, int32_t dtype, void *dst,
                                      int64_t dst_size, dllm_error *err);

#ifdef __cplusplus
}
#endif
#endif
