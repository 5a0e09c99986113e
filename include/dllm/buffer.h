#ifndef DLLM_BUFFER_H
#define DLLM_BUFFER_H
/* dllm/buffer.h -- texts and bytes of unknown length.
 *
 * A call that makes text replaces the content of a buffer of yours. One buffer serves many calls:
 *
 *     dllm_buffer *text = dllm_buffer_new();
 *     dllm_tokenizer_decode(tok, ids, count, text, err);
 *     puts((const char *)dllm_buffer_data(text));
 *     dllm_buffer_release(text);
 *
 * Lifetime   stands alone.
 * Threads    one call at a time per buffer; reads may run together.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Makes an empty buffer.
 *
 * Returns  a new buffer; NULL when memory is out
 * Owns     result is yours
 * Threads  any
 * Since    1
 */
DLLM_API dllm_buffer *dllm_buffer_new(void);

/* Gives a buffer back.
 *
 *   buf   NULL: does nothing
 *
 * Returns  nothing
 * Owns     buf is gone
 * Threads  any
 * Since    1
 */
DLLM_API void dllm_buffer_release(dllm_buffer *buf);

/* Shows the bytes; one 0 byte follows the last, so text can be used as a C string.
 *
 *   buf   NULL: NULL
 *
 * Returns  the first byte; a pointer to a 0 byte for an empty buffer
 * Owns     result is lent until the buffer is filled again or released
 * Threads  any
 * Since    1
 */
DLLM_API const void *dllm_buffer_data(const dllm_buffer *buf);

/* Tells how many bytes there are, the 0 byte at the end not counted.
 *
 *   buf   NULL: 0
 *
 * Returns  bytes
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API int64_t dllm_buffer_size(const dllm_buffer *buf);

#ifdef __cplusplus
}
#endif
#endif
