#ifndef DLLM_ENGINE_H
#define DLLM_ENGINE_H
/* dllm/engine.h -- the devices and threads that compute.
 *
 * An engine owns its threads and its memory. Every model belongs to one engine. Most programs
 * create one engine and keep it:
 *
 *     dllm_engine *engine;
 *     if (dllm_engine_new(NULL, &engine, err)) return fail(err);
 *     dllm_model_load(engine, "SmolLM2-135M", NULL, NULL, &model, err);
 *     dllm_engine_release(engine);                      the model keeps it alive
 *
 * The default is the CPU with as many threads as this process may use (affinity, cgroup quota).
 * Results of the CPU engine do not depend on the number of threads.
 *
 * Lifetime   an engine needs no other object; models keep their engine alive.
 * Threads    any thread may call; calls that compute run one after another.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/** Creates an engine.
 *
 * The options of kind "engine", in three groups (every engine, kind cpu, kind pjrt):
 *
 *     option         values         meaning
 *     kind           cpu pjrt       cpu: the kernels of dllm; pjrt: a plugin that compiles programs
 *     mesh           axis=ranks     named axes of ranks, such as "fsdp=4,tensor=2"
 *     ranks          0 to 256       ranks of this process; 0: as many as mesh has
 *     processes      one mpi        mpi: the processes that mpirun started share the ranks
 *
 *     threads        0 to 1024      threads of the engine; 0: as many as the process may use
 *     thread_pool    own openmp     own: threads of the engine; openmp: parallel regions of OpenMP
 *     memory_limit   bytes          most bytes of arrays and temporaries; 0: no limit
 *     arithmetic     f32 bf16 int8  rounding of the operands of products with weights
 *     check          none finite    finite: a run fails at the first number that is not finite
 *
 *     plugin         path or name   the plugin; cpu, tpu or cuda: one that is found by itself
 *     target         name           hardware to compile for that is not present, such as "h100"
 *     pjrt.device    0 or more      the first device of the plugin that the engine uses
 *     pjrt.compute   f32 bf16       type of the operands of matrix products; sums are f32
 *     pjrt.*         see schema     precision, cache, cache_limit, in_flight, client, flags
 *
 * Results are the same with thread_pool own and openmp. An engine with a target plans and compiles;
 * its uploads and runs fail with DLLM_FAILED_PRECONDITION.
 *
 * The arithmetics of a cpu engine, each with the weight formats that it applies to:
 *
 *     f32     all formats    operands are not rounded
 *     bf16    all formats    both operands are rounded to bf16, also in gradients; sums are f32
 *     int8    int8, q8_0     activations are rounded to 8 bits; sums of integers are exact
 *
 * The activations of int8 have one scale per row, or with q8_0 one scale per 32 numbers. Products
 * with weights of other formats, attention, norms, softmax and losses stay f32. Within one
 * arithmetic results do not depend on threads or on the other rows of a batch. The environment
 * variable DLLM_AMX=0 keeps bf16 and int8 from using AMX on chips that have it.
 *
 * The axes of mesh, and what each of them cuts:
 *
 *     data       rows of a batch
 *     fsdp       rows of a batch, parameters, optimizer state (Zhao et al. 2023, PyTorch FSDP)
 *     tensor     heads, inner sizes of networks, vocabulary (Shoeybi et al. 2019, Megatron-LM)
 *     sequence   positions of rows in training (Jacobs et al. 2023, DeepSpeed-Ulysses)
 *     expert     rows of a batch, experts
 *
 * On a cpu engine every rank is a thread with its share of threads and memory_limit. On a pjrt
 * engine every rank is a device, from pjrt.device on. Parameters that fsdp cuts are gathered layer
 * by layer while they are used. In decoding, data and fsdp divide the requests. A dimension that
 * the number of ranks does not divide stays whole. Arrays that are read or saved are whole. Results
 * differ from the results of one rank only by the order of sums. The option ranks without mesh
 * means mesh "data=<ranks>".
 *
 * With processes = mpi the engines of all processes act as one engine. A cpu process is one rank; a
 * pjrt process has as many devices of its plugin as it has ranks. Without mesh every process is one
 * rank of axis data. All processes must make the same calls in the same order with the same
 * arguments. Runs, saves and reads of cut arrays wait for the other processes. The first process
 * writes checkpoints, models and sinks for all. The engine needs libdllm_mpi.so next to this
 * library, or its path in the environment variable DLLM_MPI_LIBRARY. The options threads and
 * memory_limit are for each process.
 *
 *   opts   NULL: defaults; kind "engine": kind (cpu pjrt), threads, thread_pool (own openmp),
 *          memory_limit, arithmetic (f32 bf16 int8), check (none finite), mesh, ranks, processes
 *          (one mpi), plugin, target, pjrt.device, pjrt.compute (f32 bf16) and the other pjrt keys
 *   out    not NULL
 *
 * Returns  DLLM_OK; DLLM_UNIMPLEMENTED for a kind or thread_pool this build does not have (see
 *          dllm_has_feature); DLLM_NOT_FOUND for a plugin that does not exist; DLLM_UNAVAILABLE for
 *          a plugin that cannot be loaded or has no device, and when MPI is missing;
 *          DLLM_FAILED_PRECONDITION for a plugin that is too old
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

/** Writes a description of the engine as a JSON object.
 *
 * The object has kind, devices, threads, thread_pool, simd, arithmetic, product_kernel (the kernel
 * of matrix products) and memory (used, peak, limit). Memory of kind cpu also has kept: bytes of
 * freed blocks that wait for the next run. The field used does not include kept; the sum of both
 * never exceeds peak or limit.
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
 *   key      not NULL: "threads" (1 or more), "memory_limit" (bytes, 0: no limit); of kind pjrt
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
 * The keys:
 *
 *     "threads"          threads of the engine; 0 for kind pjrt
 *     "rank"             first rank of this process
 *     "ranks"            ranks of the mesh
 *     "memory_used"      bytes in use now
 *     "memory_peak"      most bytes that were in use
 *     "memory_limit"     most bytes that may be used; 0: no limit
 *     "compiles"         programs that were compiled
 *     "round_trips"      times the host waited for results of a device, at most once per run
 *     "bytes_sent"       kind cpu: bytes of arrays that were sent to other ranks
 *     "rank_wait_us"     kind cpu: microseconds of waiting for others in exchanges, of the rank of
 *                        this process that waited longest
 *     "cache_hits"       kind pjrt: programs that were read from disk
 *     "pjrt.in_flight"   kind pjrt: most runs that are started and not finished
 *
 *   engine   not NULL
 *   key      not NULL, one of the keys above
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
 * The programs are the programs of a trainer (a whole optimizer step) or of a decoder (a pass). An
 * engine with a compiler, also for hardware that is not present, adds the compiler's figures as
 * "compiled". "fits" says whether the device has enough memory.
 *
 * The options of kind "plan":
 *
 *     option                values                  meaning
 *     what                  train decode            the job
 *                           prefill forward
 *     format                json sizes graph        json: bytes; sizes: those known without
 *                           stablehlo optimized     compiling; graph: text; stablehlo, optimized:
 *                                                   the compiler's input and output
 *     texts                 0 1                     1: the json also holds both of these texts
 *     batch                 1 or more               rows
 *     length                0 or more               tokens of a row; 0: the model's longest
 *     window                0 or more               positions of a decoding step; 0: all, no cache
 *     dtype                 auto, weight format     format of the weights; auto: of the files
 *     adapter               JSON                    training: options of kind adapter
 *     remat                 0 1                     1: training recomputes every layer
 *     activations           f32 bf16                type of the activations that training keeps
 *     memory                bytes                   limit of a training step; 0: no limit
 *     offload               0 1                     1: the optimizer's arrays are elsewhere
 *     offload_mib           1 or more               MiB of these arrays in memory at one time
 *     ema                   0 1                     1: training keeps a moving average
 *     objective, optimizer  name                    of the training
 *     policy                name                    of the decoding
 *     loop                  auto host device        device: a block as one program; host: a step
 *
 * With an adapter the base stays in its dtype, and the adapter alone has moments. "trained" of
 * "parameters" numbers are trained. The json has bytes per rank. A decode with a window includes
 * its cache; "peak" is the peak of a step; "loading" is the peak while the weights are packed;
 * "attention" is the model's. On a mesh "exchanges" has the calls and the bytes that a rank sends,
 * for each collective operation.
 *
 *   engine   not NULL
 *   path     not NULL, a model folder or file, as dllm_model_load
 *   opts     NULL: defaults; kind "plan": what, format, texts, batch, length, window, dtype,
 *            adapter, remat, activations (f32 bf16), memory, offload, offload_mib, ema, objective,
 *            optimizer, policy, loop
 *   task     NULL, or checked before every program
 *   out      not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND; DLLM_DATA_LOSS for a damaged file; DLLM_UNIMPLEMENTED for a
 *          format this engine cannot write; DLLM_CANCELLED; the status of a compiler error, except
 *          out of memory, which is reported as "fits": false
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
