#ifndef DLLM_DLLM_H
#define DLLM_DLLM_H
/* dllm/dllm.h -- the whole public interface of dllm.
 *
 * dllm trains and decodes diffusion language models. Include this header, link `dllm` (or load
 * libdllm.so at run time), and check dllm_abi_version() first.
 *
 * Rules that hold for every function
 *  1. Handles are pointers to opaque types. `release(NULL)` does nothing. Handles may be released
 *     in any order: an object keeps the objects that it uses alive. A release while calls still use
 *     the handle (in another thread, or in a callback that releases the object it runs in) lets
 *     these calls finish. New calls fail with DLLM_INVALID_ARGUMENT, and the last call that returns
 *     destroys the object. Pointers that a handle returned (names, data) are invalid after the
 *     release. A call that begins after the release is undefined.
 *  2. A function that can fail returns `dllm_status`; 0 is success. `err` may be NULL. On failure
 *     it holds one line of text until its next use; on success it is not changed. One `dllm_error`
 *     per thread is enough.
 *  3. Text is UTF-8. Names and paths end with a 0 byte; content comes with its size. Counts and
 *     sizes are `int64_t`, never negative.
 *  4. The caller keeps the arguments of a call and may free them when the call returns
 *     (dllm/source.h has one exception). The caller releases what a function writes to `out`. A
 *     pointer that a function returns belongs to the library, unless its block says that the caller
 *     owns it.
 *  5. The line `Threads` of each block has one of three words.
 *     any: the function may be called from any thread, also while other calls use the same objects,
 *     for example a training or decoding step.
 *     owner: at most one such call at a time per object. The object is the first handle of the
 *     signature.
 *     callback: as owner, and also inside a callback of that object.
 *     While an owner call on a decoder, a trainer, a loader, an answer, a generator or a Lua
 *     runner runs, an
 *     owner call of another thread fails with DLLM_FAILED_PRECONDITION. Options, batches, tensors,
 *     buffers, errors, sources and datasets have no lock. Any number of calls may read one of them,
 *     but none while another call writes to it (set, add, or as `out` and `err`).
 *  6. Callbacks run on the thread of the call, inside the call, and never after it. (Hooks of
 *     dllm/host.h run on any thread.)
 *  7. Output parameters are written only on success, except the count of an array that is too
 *     small.
 *  8. A symbol of ABI 1 keeps its name, its signature and its meaning as long as the number that
 *     `dllm_abi_version()` returns does not change. New symbols and new option keys may appear.
 *     `dllmx_` symbols may change at any time. Before release 1.0 this rule does not hold yet.
 *  9. The library never exits, never aborts on input of the caller, never writes to standard
 *     output, never changes locale, signal handlers or floating-point modes.
 * 10. A child of fork() may use the objects of its parent if no other thread was inside a call at
 *     the time of the fork. Else every call of the child that takes a handle fails with
 *     DLLM_FAILED_PRECONDITION, and releases do nothing.
 *
 * The block of a function
 *   It has a sentence with what the function does, one line per parameter, then Returns, Owns,
 *   Threads, Since. `Threads` is one of: any, owner, callback (rule 5). `err` is in no block: it
 *   may always be NULL.
 *
 *   Some statuses are in no block. Every function that can fail returns DLLM_INVALID_ARGUMENT for
 *   NULL where not allowed and for a negative count. It may return DLLM_RESOURCE_EXHAUSTED,
 *   DLLM_INTERNAL and DLLM_UNKNOWN. A function that takes a task may return DLLM_DEADLINE_EXCEEDED.
 *   A function without a status never crashes on NULL: it returns 0 or NULL.
 */
#include "dllm/adapter.h"
#include "dllm/anchors.h"
#include "dllm/answer.h"
#include "dllm/base.h"
#include "dllm/batch.h"
#include "dllm/buffer.h"
#include "dllm/checkpoint.h"
#include "dllm/dataset.h"
#include "dllm/decoder.h"
#include "dllm/engine.h"
#include "dllm/error.h"
#include "dllm/event.h"
#include "dllm/generator.h"
#include "dllm/host.h"
#include "dllm/hub.h"
#include "dllm/library.h"
#include "dllm/loader.h"
#include "dllm/lua.h"
#include "dllm/model.h"
#include "dllm/objective.h"
#include "dllm/options.h"
#include "dllm/plugin.h"
#include "dllm/queue.h"
#include "dllm/registry.h"
#include "dllm/schedule.h"
#include "dllm/source.h"
#include "dllm/task.h"
#include "dllm/tensor.h"
#include "dllm/tokenizer.h"
#include "dllm/trainer.h"
#include "dllm/trajectory.h"
#endif
