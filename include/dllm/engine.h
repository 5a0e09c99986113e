#ifndef DLLM_ENGINE_H
#define DLLM_ENGINE_H
/* dllm/engine.h -- the devices and threads that compute.
 *
 * An engine owns its threads and its memory; models live on one. Most programs create one and keep
 * it:
 *
 *     dllm_engine *engine;
 *     if (dllm_engine_new(NULL, &engine, err)) return fail(err);
 *     dllm_model_load(engine, "SmolLM2-135M", NULL, NULL, &model, err);
 *     dllm_engine_release(engine);                      the model keeps it alive
 *
 * The default is the CPU with as many threads as this process may use (affinity, cgroup quota).
 * Results of the CPU engine do not depend on the number of threads.
 *
 * Lifetime   stands alone; models keep their engine alive.
 * Threads    any thread may call; calls that compute run one after another.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/** Creates an engine.
 *
 * With thread_pool openmp an engine of kind cpu runs its threads as parallel regions of OpenMP, in
 * place of threads of its own. The results are the same.
 *
 * arithmetic chooses what the operands of products with weights are rounded to, on an engine of kind
 * cpu: f32 not at all; bf16 (weights f32 and bf16) both operands to bf16, with sums in f32, also in
 * gradients; int8 (weights int8 and q8_0) activations to 8 bits with a scale per row (q8_0: per 32
 * numbers), with exact integer sums. Products with weights of other formats, attention, norms, softmax and losses stay
 * f32. Within one arithmetic results do not depend on threads or on what else is in the batch. The
 * environment variable DLLM_AMX=0 keeps bf16 and int8 from using AMX on chips that have it.
 *
 * mesh (such as "fsdp=4,tensor=2") places ranks of this process on named axes: on an engine of kind cpu each is a thread of
 * its own with its share of threads and memory_limit, on one of kind pjrt a device, from pjrt.device on. Models are then cut over the ranks, and arrays that are read or
 * saved are whole: data cuts the rows of a batch; fsdp too, and parameters with their optimizer state, which are
 * gathered layer by layer while they are used (Zhao et al. 2023, PyTorch FSDP); tensor cuts heads, inner sizes of
 * networks and the vocabulary (Shoeybi et al. 2019, Megatron-LM); sequence cuts the positions of rows in training (Jacobs
 * et al. 2023, DeepSpeed-Ulysses); expert cuts the rows of a batch, and experts. In decoding data and fsdp share out
 * requests. What does not divide by the ranks stays whole. The numbers are those of one rank up to the order of sums. ranks alone is mesh "data=<ranks>".
 *
 * processes = mpi (one mpi): the ranks of the mesh are shared out between the processes that mpirun started (without mesh: one
 * each, of data), and the engine of a process is the one of all. On an engine of kind cpu a process is one rank; on one of kind
 * pjrt it has as many devices of its plugin as ranks, from pjrt.device on. Every process then makes the same calls in the same order, with the same arguments: runs, saves and reads
 * of arrays that are cut wait for the others. The first process writes checkpoints, models and sinks for all. It needs
 * libdllm_mpi.so next to this library, or its path in the environment variable DLLM_MPI_LIBRARY. threads and memory_limit
 * are those of one process.
 *
 *   opts   NULL: defaults; kind "engine": kind, threads, thread_pool (own openmp), memory_limit
 *          (bytes), mesh, ranks, processes (one mpi), check, arithmetic (f32 bf16 int8), and for kind pjrt plugin, pjrt.device, pjrt.compute and the other
 *          pjrt keys, target (hardware that is not present: the engine plans and compiles;
 *          uploads and runs fail with DLLM_FAILED_PRECONDITION)
 *   out    not NULL
 *
 * Returns  DLLM_OK; DLLM_UNIMPLEMENTED for a kind or thread_pool this build does not have (see
 *          dllm_has_feature); DLLM_NOT_FOUND when there is no such plugin; DLLM_UNAVAILABLE when a
 *          plugin cannot be loaded or has no device, or MPI is not there; DLLM_FAILED_PRECONDITION when it is too old
 * Owns     caller owns out
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_engine_new(const dllm_options *opts, dllm_engine **out, dllm_error *err);

/** Releases an engine; it is destroyed with the last object that uses it.
 *
 *   engine   NULL: does nothing
 *
 * Returns  nothing
 * Owns     releases engine
 * Threads  any
 * Since    1
 */
DLLM_API void dllm_engine_release(dllm_engine *engine);

/** Returns the number of devices.
 *
 *   engine   NULL: 0
 *
 * Returns  devices, 1 or more
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API int64_t dllm_engine_device_count(const dllm_engine *engine);

/** Returns the name of a device, such as "cpu:0".
 *
 *   engine   NULL: NULL
 *   index    0 to dllm_engine_device_count - 1
 *
 * Returns  text; NULL when index is out of range
 * Owns     result is valid until the engine is released
 * Threads  any
 * Since    1
 */
DLLM_API const char *dllm_engine_device_name(const dllm_engine *engine, int64_t index);

/** Writes a description of the engine as a JSON object: kind, devices, threads, thread_pool, simd,
 * arithmetic, product_kernel (what multiplies in it), memory (used, peak, limit; of kind cpu also
 * kept: freed blocks of runs that wait for the next run. They are not in "used"; with it
 * they never exceed "peak" or "limit").
 *
 *   engine   not NULL
 *   out      not NULL
 *
 * Returns  DLLM_OK
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_engine_describe(const dllm_engine *engine, dllm_buffer *out,
                                          dllm_error *err);

/** Changes a setting of an engine.
 *
 *   engine   not NULL
 *   key      not NULL: "threads" (1 or more), "memory_limit" (bytes, 0: none); of kind pjrt
 *            "pjrt.in_flight"
 *   value    within the key's range
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND for an unknown key; DLLM_OUT_OF_RANGE when out of range;
 *          DLLM_FAILED_PRECONDITION for a key that is fixed when the engine is created
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_engine_set_i64(dllm_engine *engine, const char *key, int64_t value,
                                         dllm_error *err);

/** Reads a number of the engine.
 *
 *   engine   not NULL
 *   key      not NULL: "threads" "rank" "ranks" "compiles" "round_trips" (times the host waited
 *            for results of a device; all results of one run count as one), and in bytes "memory_used"
 *            "memory_peak" "memory_limit" "bytes_sent" (of arrays, to other ranks); of kind cpu also
 *            "rank_wait_us" (microseconds that a rank of this process waited for others in exchanges,
 *            the one that waited longest); of kind pjrt also "cache_hits" (programs read from
 *            disk) "pjrt.in_flight"
 *   out      not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND for an unknown key
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_engine_i64(const dllm_engine *engine, const char *key, int64_t *out,
                                     dllm_error *err);

/** Estimates what a job on a model needs, without loading its weights.
 *
 * The programs are those that a trainer or a decoder would run: a whole optimizer step, a pass of
 * the decoder. On an engine with a compiler, also one for hardware that is not present, "compiled"
 * holds the compiler's figures, and "fits" whether the device has enough memory.
 *
 *   engine   not NULL
 *   path     not NULL, a model folder or file, as dllm_model_load
 *   opts     NULL: defaults; kind "plan": what (train decode prefill forward), format (json: bytes
 *            per rank, with the cache of a decode with a window; "peak" of a step, "loading" while
 *            the weights are packed; on a mesh "exchanges", calls and bytes sent by a rank for each
 *            collective operation; graph: text; stablehlo, optimized:
 *            the compiler's input and output), texts (both of them in the json), batch, length,
 *            window, dtype, remat, activations (f32 bf16), memory, ema, objective, optimizer, policy, loop
 *   task     NULL, or checked before every program
 *   out      not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND; DLLM_DATA_LOSS for a damaged file; DLLM_UNIMPLEMENTED for a
 *          format this engine cannot write; DLLM_CANCELLED; the
 *          status of a compiler error, except out of memory: that is reported as "fits": false
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_engine_plan(dllm_engine *engine, const char *path,
                                      const dllm_options *opts, dllm_task *task, dllm_buffer *out,
                                      dllm_error *err);

/** Frees memory that is not in use: arenas, kept blocks, cached plans.
 *
 *   engine   not NULL
 *
 * Returns  DLLM_OK
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_engine_trim(dllm_engine *engine, dllm_error *err);

#ifdef __cplusplus
}
#endif
#endif
