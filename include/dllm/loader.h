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
 * The options of kind "loader":
 *
 *     batch                  rows of a batch; with option ranks, rows of each rank
 *     length                 ids of a row
 *     seed, shuffle          seed of the order; shuffle: another order in every epoch
 *     order                  keyed: a keyed shuffle; python: random.Random(seed + epoch).shuffle
 *     split                  rows to use: all train held_out
 *     split_fraction         part of the rows that is held out of training
 *     epochs                 times through the data; 0: without end
 *     rank, ranks            number of this rank; ranks that share every batch
 *     pack                   1: several documents share a row; 0: a row per document
 *     drop_tail              leaves out the last packed row of an epoch when it is not full
 *     segments               packed documents do not see each other
 *     arrays                 path of a folder of anchors (anchors.h), which the batch then holds
 *     pad_id                 token that fills rows; -1: pad of the tokenizer, else its eos, else 0
 *
 * The options for rows that are not packed:
 *
 *     truncate               what a row loses that is too long: right left drop
 *     pad_side               right left
 *     see_padding            tokens see the padding, as without an attention mask
 *     eos_block              rows end with learned eos tokens, to a multiple of this; 0: off
 *     response_cut           none responses columns (Dream); what the rows of a batch lose
 *     response_cut_ratio     part of the batches that lose columns
 *     arrays                 path of a safetensors file with arrays of the rows, found by row_keys
 *     row_keys               the batch holds row_keys i64(batch), to write such a file
 *     trajectories           path of a file of trajectories, by which objectives mask the rows; the
 *                            batch holds the array trajectory
 *
 *   data   not NULL, holds ids
 *   opts   NULL: defaults; kind "loader": batch, length, seed, split, split_fraction, pack,
 *          drop_tail, shuffle, order (keyed python), epochs, truncate, pad_id, segments, rank,
 *          ranks, pad_side (right left), see_padding, eos_block, response_cut (none responses
 *          columns), response_cut_ratio, arrays, row_keys, trajectories
 *   out    not NULL
 *
 * Returns  DLLM_OK; DLLM_FAILED_PRECONDITION for raw text or a split without rows; for the file of
 *          option arrays or trajectories DLLM_NOT_FOUND, and DLLM_DATA_LOSS when it is not such a
 *          file or of other rows; DLLM_INVALID_ARGUMENT when an array has a name that batches
 *          reserve, and when no row has a token to learn
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

/** Returns the next batch.
 *
 *     ids        i32 (batch, length)
 *     keep       u8 (batch, length)
 *     rows       i64 (2)
 *     segments   i32 (batch, length), when rows hold several documents
 *
 * With option arrays the batch also holds the arrays of its rows, each (batch, ...). With option
 * trajectories it holds trajectory i32(batch, length): the first row of the trajectory that shows
 * a token; 0: given; -1: the row has no trajectory.
 *
 *   loader   not NULL
 *   out      not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND when the file of option arrays lacks a row; DLLM_OUT_OF_RANGE at
 *          the end of the data; DLLM_DATA_LOSS when a file of the dataset was written to or
 *          replaced since it was opened, the message names it
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
