#ifndef DLLM_LOADER_H
#define DLLM_LOADER_H
/* dllm/loader.h -- batches of a dataset, in a reproducible order.
 *
 *     while (dllm_loader_next(loader, &batch, err) == DLLM_OK) {
 *       dllm_trainer_step(trainer, batch, NULL, &loss, err);
 *       dllm_batch_release(batch);
 *     }
 *
 * The order is a keyed shuffle: a seed and a position always give the same batch, so a resumed
 * run continues exactly where it stopped.
 *
 * Lifetime   a loader keeps its dataset alive.
 * Threads    one call at a time per loader.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/** Creates a loader at position 0.
 *
 *   data   not NULL, holds ids
 *   opts   NULL: defaults; kind "loader": batch (rows), length (ids per row), seed, split,
 *          split_fraction, pack, drop_tail, shuffle, order (keyed python), epochs, truncate, pad_id,
 *          segments, rank, ranks, pad_side (right left), see_padding, eos_block,
 *          response_cut (none responses columns), response_cut_ratio, arrays (path of a
 *          safetensors file with arrays of the rows, found by row_keys; pack off)
 *   out    not NULL
 *
 * Returns  DLLM_OK; DLLM_FAILED_PRECONDITION for raw text or a split without rows
 * Owns     caller owns out, which keeps data
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_loader_new(dllm_dataset *data, const dllm_options *opts,
                                     dllm_loader **out, dllm_error *err);

/** Releases a loader.
 *
 *   loader   NULL: does nothing
 *
 * Returns  nothing
 * Owns     releases loader
 * Threads  any
 * Since    1
 */
DLLM_API void dllm_loader_release(dllm_loader *loader);

/** Returns the next batch: ids (batch, length) i32, keep (batch, length) u8, rows (2) i64, and
 * segments (batch, length) i32 when rows hold several documents.
 *
 *   loader   not NULL
 *   out      not NULL
 *
 * With option arrays the batch also holds the arrays of its rows, (batch, ...) each.
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND when that file lacks a row; DLLM_OUT_OF_RANGE at the end of the
 *          data; DLLM_DATA_LOSS when a file of the
 *          dataset was written to or replaced since it was opened, the message names it
 * Owns     caller owns out
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_loader_next(dllm_loader *loader, dllm_batch **out, dllm_error *err);

/** Moves to a position, as returned by dllm_loader_position.
 *
 *   loader     not NULL
 *   position   rows read since the start, 0 or more
 *
 * Returns  DLLM_OK; DLLM_OUT_OF_RANGE past the end
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_loader_seek(dllm_loader *loader, int64_t position, dllm_error *err);

/** Returns the number of rows read since the start, over all epochs and ranks.
 *
 * It counts rows, not batches: a run may be resumed with another batch size.
 *
 *   loader   NULL: 0
 *
 * Returns  rows
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API int64_t dllm_loader_position(const dllm_loader *loader);

#ifdef __cplusplus
}
#endif
#endif
