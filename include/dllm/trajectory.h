#ifndef DLLM_TRAJECTORY_H
#define DLLM_TRAJECTORY_H
/* dllm/trajectory.h -- the order in which a teacher reveals the tokens of the rows of a dataset.
 *
 *     int64_t rows = 0;
 *     dllm_dataset_extract_trajectories(data, model, "order.jsonl", NULL, task, &rows, err);
 *     dllm_options_set_str(opts, "trajectories", "order.jsonl", err);
 *     dllm_loader_new(data, opts, &loader, err);
 *
 * A trajectory begins with a row whose tokens after the prompt are all hidden, and ends with the
 * whole row. In between the teacher shows the tokens that it is certain of first. A student that is
 * trained on such rows learns to decode several tokens in a step (d3LLM).
 *
 * A file has one line of JSON for each row of the dataset:
 *
 *     {"idx": 0, "prompt_len": 4, "len": 8, "order": [3, 1, 1, 2], "key": "..."}
 *     {"idx": 0, "trajectory": [[ids], ...], "nfe": 4, "prompt_len": 4}
 *
 * `order` has, for each token after the prompt, the first row that shows it. The line also has
 * `tokens` when the teacher showed other tokens than the data has. `key` is a hash of the row, so
 * that a file of other data is refused. Castlehill, a fork of Open-dLLM, writes the second form.
 *
 * The file PATH.settings.json next to it has the options that the lines were made with. It also has
 * hashes of the teacher's numbers, of the tokenizer's tokens and of the data. A call with other
 * settings is refused.
 *
 * The options of kind "trajectories":
 *
 *     method          scheduled: in each row the ceil(n / steps) tokens of the lowest entropy,
 *                     entropy: the tokens below threshold, left_to_right: from the left, without
 *                     a model, block_wise: block after block, the lowest and all below threshold
 *     lines           compact rows: the form of the lines
 *     steps           rows after the first one, 0: 32 for scheduled, 16 for entropy and
 *                     left_to_right
 *     threshold       entropy in nats, default 1.5 for entropy, 0 for block_wise
 *     block_length    tokens of a block of block_wise
 *     fill            auto data model: what a row shows, the token of the data or the one that the
 *                     model predicts, auto: data for scheduled, model for the others
 *     context         part of a row that counts as its prompt when the data gives none
 *     least, length   rows with fewer tokens are left out, longer rows are cut at the end
 *     attention       auto causal bidirectional block_causal, auto: as a masked objective trains
 *     shift           1: the logits before a token predict it, -1: the model's own, and 1 for a
 *                     next-token model
 *     suppress_mask   the model never predicts the mask token
 *     batch           rows of a pass
 *     limit           most new rows of this call, 0: all
 *     fresh           remove the lines that the file has, and begin again
 *
 * Lifetime   nothing is kept.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/** Appends the trajectories of the rows of a dataset to a file.
 *
 * Rows that the file has already are skipped, and a last line that is not whole is removed first.
 * So a call that was stopped is repeated. A line is written when its row is done. A model without a
 * mask token gets one, as training would add it. A next-token model, which was not trained to fill
 * masks, logs a warning.
 *
 *   data      not NULL, holds ids
 *   model     the teacher; NULL for method left_to_right
 *   path      not NULL; the file, which need not exist
 *   opts      NULL: defaults; kind "trajectories": method (scheduled entropy left_to_right
 *             block_wise), lines (compact rows), steps, threshold, block_length, fill (auto data
 *             model), context, least, length, attention (auto causal bidirectional block_causal),
 *             shift, suppress_mask, batch, limit, fresh
 *   task      NULL, or reports rows as progress and cancels between passes
 *   out_rows  not NULL; the rows that this call wrote
 *
 * Returns  DLLM_OK; DLLM_INVALID_ARGUMENT for an option that the method does not use, and for a
 *          token that the model does not have; DLLM_FAILED_PRECONDITION for raw text, for a row
 *          longer than the model allows, for a model that was not trained to fill masks (uniform,
 *          editflow, diffusion_gemma), and for lines that were made with other settings, naming the
 *          setting and both values; DLLM_UNAVAILABLE while another call writes to the file;
 *          DLLM_DATA_LOSS for a file of another form, naming the line; DLLM_CANCELLED,
 *          DLLM_DEADLINE_EXCEEDED; DLLM_RESOURCE_EXHAUSTED for a full disk
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_dataset_extract_trajectories(dllm_dataset *data, dllm_model *model,
                                                       const char *path, const dllm_options *opts,
                                                       dllm_task *task, int64_t *out_rows,
                                                       dllm_error *err);

#ifdef __cplusplus
}
#endif
#endif
