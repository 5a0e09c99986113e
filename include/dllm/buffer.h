#ifndef DLLM_BUFFER_H
#define DLLM_BUFFER_H
/* dllm/buffer.h -- text and bytes of unknown length.
 *
 * A call that returns text replaces the content of the caller's buffer. One buffer serves many
 * calls:
 *
 *     dllm_buffer *text = dllm_buffer_new();
 *     dllm_tokenizer_decode(tok, ids, count, text, err);
 *     puts((const char *)dllm_buffer_data(text));
 *     dllm_buffer_release(text);
 *
 * Lifetime   a buffer needs no other object.
 * Threads    one call at a time per buffer; reads may run together.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/** Creates an empty buffer.
 *
 * Returns  a new buffer; NULL when out of memory
 * Owns     caller owns result
 * Threads  any
 * Since    1
 */
DLLM_API dllm_buffer *dllm_buffer_new(void);

/** Releases a buffer.
 *
 *   buf   NULL: does nothing
 *
 * Returns  nothing
 * Owns     releases buf
 * Threads  any
 * Since    1
 */
DLLM_API void dllm_buffer_release(dllm_buffer *buf);

/** Returns a pointer to the bytes; one 0 byte follows the last, so text can be used as a C string.
 *
 *   buf   NULL: NULL
 *
 * Returns  the first byte; a pointer to a 0 byte for an empty buffer
 * Owns     result is valid until the buffer is filled again or released
 * Threads  any
 * Since    1
 */
DLLM_API const void *dllm_buffer_data(const dllm_buffer *buf);

/** Returns the number of bytes, without the 0 byte at the end.
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
