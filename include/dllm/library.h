#ifndef DLLM_LIBRARY_H
#define DLLM_LIBRARY_H
/* dllm/library.h -- version, features, log.
 *
 * A host that loads the library at run time calls these functions first:
 *
 *     if (dllm_abi_version() != 1) return no("another ABI");
 *     dllm_log_config(DLLM_LOG_WARN, DLLM_SINK_STDERR);
 *
 * Log lines never go to standard output. The level and the sink are the only global settings;
 * everything else belongs to an object.
 *
 * Threads    every function here may be called from any thread at any time.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/** Returns the ABI version of the library; it changes only with an incompatible change.
 *
 * Returns  1
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API int32_t dllm_abi_version(void);

/** Returns the semantic version of the library, such as "0.3.1".
 *
 * Returns  text, never NULL
 * Owns     result is valid for the life of the process
 * Threads  any
 * Since    1
 */
DLLM_API const char *dllm_version(void);

/** Returns how the library was built: a JSON object with compiler, simd, lua, pjrt, openmp, git.
 *
 * Returns  text, never NULL
 * Owns     result is valid for the life of the process
 * Threads  any
 * Since    1
 */
DLLM_API const char *dllm_build_info(void);

/** Returns whether this build has a feature.
 *
 *   name   NULL: 0; "lua" (dllm_lua_new), "pjrt" (engines of that kind), "openmp" (engines with
 *          thread_pool = openmp) or "bf16" (weights in that format); any other name: 0
 *
 * Returns  1 or 0
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API int32_t dllm_has_feature(const char *name);

/** Sets the lowest level that is logged and where lines go.
 *
 * The default is DLLM_LOG_INFO to DLLM_SINK_NONE: nothing is printed by default. A queue
 * keeps the newest 1000 lines for dllm_log_next; choosing another sink empties it. A number out of
 * range changes nothing.
 *
 *   min_level   one of DLLM_LOG_DEBUG to DLLM_LOG_ERROR
 *   sink        one of DLLM_SINK_NONE, DLLM_SINK_STDERR, DLLM_SINK_QUEUE
 *
 * Returns  nothing
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API void dllm_log_config(int32_t min_level, int32_t sink);

/** Removes the oldest line from the log queue and copies it.
 *
 *   out_line    not NULL; its content is replaced by the line, without a line break
 *   out_level   NULL, or gets one of DLLM_LOG_DEBUG to DLLM_LOG_ERROR
 *
 * Returns  1; 0 when the queue is empty or out_line is NULL, outputs are not changed then
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API int32_t dllm_log_next(dllm_buffer *out_line, int32_t *out_level);

#ifdef __cplusplus
}
#endif
#endif
