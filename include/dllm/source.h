#ifndef DLLM_SOURCE_H
#define DLLM_SOURCE_H
/* dllm/source.h -- files held in memory, for hosts that pack or encrypt their assets.
 *
 * A source takes the place of a folder: add files by their names in the folder, then load from the
 * source:
 *
 *     dllm_source_new(&source, err);
 *     dllm_source_add(source, "config.json", config, config_size, 0, err);
 *     dllm_source_add(source, "model.safetensors", weights, weights_size, 1, err);
 *     dllm_model_load_source(engine, source, NULL, NULL, &model, err);
 *
 * Lifetime   an object that is loaded from a source keeps the source alive. Bytes added with lend =
 *            1 must stay valid until the source and everything loaded from it are released. These
 *            bytes are the one exception to "arguments may be freed when the call returns".
 * Threads    one call at a time per source; loads from it may run at the same time.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/** Creates an empty source.
 *
 *   out   not NULL
 *
 * Returns  DLLM_OK
 * Owns     caller owns out
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_source_new(dllm_source **out, dllm_error *err);

/** Releases a source.
 *
 *   source   NULL: does nothing
 *
 * Returns  nothing
 * Owns     releases source
 * Threads  any
 * Since    1
 */
DLLM_API void dllm_source_release(dllm_source *source);

/** Adds a file.
 *
 *   source   not NULL
 *   name     not NULL, as in a model folder, such as "tokenizer.json"; no folder part
 *   data     NULL only when size is 0
 *   size     bytes, 0 or more
 *   lend     0: the bytes are copied; 1: they are used in place
 *
 * Returns  DLLM_OK; DLLM_ALREADY_EXISTS when the name is taken
 * Owns     source keeps data when lend is 1
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_source_add(dllm_source *source, const char *name, const void *data,
                                     int64_t size, int32_t lend, dllm_error *err);

#ifdef __cplusplus
}
#endif
#endif
