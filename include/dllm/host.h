#ifndef DLLM_HOST_H
#define DLLM_HOST_H
/* dllm/host.h -- hooks for memory, threads and the log of the host program.
 *
 * A game or an editor has its own allocator, task system and log. An engine can use them:
 *
 *     dllm_engine_new_hosted(opts, my_allocate, my_free, my_parallel, &host, &engine, err);
 *     dllm_log_hook(DLLM_LOG_WARN, my_log, &host);
 *
 * Hooks are not callbacks of a call. They run on any thread, several at the same time, whenever an
 * object of the engine works, is created or is destroyed. They must not call functions of this
 * library.
 *
 * Lifetime   hooks and their user_data must stay valid until the engine and every object that uses
 *            it (models, trainers, decoders) are released. All memory is freed by then.
 * Threads    every function here may be called from any thread.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/** Allocates `size` bytes at a multiple of `alignment` (a power of 2, 64 today).
 *
 * It may return NULL. The call that needs the memory then fails with DLLM_RESOURCE_EXHAUSTED.
 */
typedef void *(*dllm_allocate_fn)(int64_t size, int64_t alignment, void *user_data);

/** Frees memory of dllm_allocate_fn; `size` is the allocated size. */
typedef void (*dllm_free_fn)(void *memory, int64_t size, void *user_data);

/** Runs one part of a job of the library; it never throws and takes less than about 10 ms. */
typedef void (*dllm_chunk_fn)(void *job, int64_t index);

/** Calls chunk(job, index) once for every index of 0 to count - 1 and returns after all of them.
 *
 * The calls run on threads of the host, in any order. The calling thread may run some or all of
 * them.
 */
typedef void (*dllm_parallel_fn)(int64_t count, dllm_chunk_fn chunk, void *job, void *user_data);

/** Gets one line of the log, without a line break; level is DLLM_LOG_DEBUG to DLLM_LOG_ERROR. */
typedef void (*dllm_log_fn)(int32_t level, const char *line, void *user_data);

/** Creates an engine of kind "cpu" that takes its memory and its threads from the host.
 *
 * Parameters, optimizer states, the KV cache and temporaries use memory of the host. Small objects
 * still come from malloc.
 *
 * The engine starts no threads. Option threads is the least number of parts that work is split into
 * (0: as many as the process may use). dllm_decoder_step_for still has its own thread. Results
 * equal the results of an engine without hooks.
 *
 *   opts         NULL: defaults; kind "engine"
 *   allocate     NULL: malloc
 *   deallocate   NULL only when allocate is NULL
 *   parallel     NULL: threads of the engine
 *   user_data    NULL, or passed to all three
 *   out          not NULL
 *
 * Returns  DLLM_OK; DLLM_INVALID_ARGUMENT when one of allocate and deallocate is NULL, or when
 *          thread_pool is openmp and parallel is not NULL; DLLM_UNIMPLEMENTED for kind "pjrt",
 *          whose plugins have memory and threads of their own
 * Owns     caller owns out
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_engine_new_hosted(const dllm_options *opts, dllm_allocate_fn allocate,
                                            dllm_free_fn deallocate, dllm_parallel_fn parallel,
                                            void *user_data, dllm_engine **out, dllm_error *err);

/** Sends log lines to a function instead of the sink of dllm_log_config, one line at a time.
 *
 * dllm_log_config removes the function. When either of them returns, the previous function is no
 * longer called. Inside fn this function does nothing.
 *
 *   min_level   one of DLLM_LOG_DEBUG to DLLM_LOG_ERROR; another number changes nothing
 *   fn          NULL: lines are dropped
 *   user_data   NULL, or passed to fn
 *
 * Returns  nothing
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API void dllm_log_hook(int32_t min_level, dllm_log_fn fn, void *user_data);

#ifdef __cplusplus
}
#endif
#endif
