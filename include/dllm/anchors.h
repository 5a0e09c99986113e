#ifndef DLLM_ANCHORS_H
#define DLLM_ANCHORS_H
/* dllm/anchors.h -- what a teacher computes from the texts of a loader, kept in a folder.
 *
 *     int64_t chunks = 0;
 *     dllm_loader_write_anchors(loader, teacher, "anchors", NULL, task, &chunks, err);
 *     dllm_options_set_str(loader_opts, "arrays", "anchors", err);
 *     dllm_options_set_str(objective_opts, "teacher", "rows", err);
 *     dllm_options_set_f64(objective_opts, "align", 2, err);
 *
 * A training that is aligned with a teacher, or distils one, then needs no second model: its
 * batches have the teacher's numbers. The teacher sees each text alone, so the numbers depend on
 * the text and not on its place in a row.
 *
 * A chunk is a run of tokens of a row that see each other and no other token. It has one file, and
 * its name is a hash of the tokens. The folder is as castlehill, a fork of Open-dLLM, writes it:
 *
 *     DIR/29/299e9bb8fadf6506.safetensors   input_ids i64(tokens), hidden_layer_7 (tokens, hidden)
 *     DIR/manifest.json                     num_hidden_layers, hidden_size, layers; written last
 *     DIR/anchors.settings.json             the options, and a hash of the teacher's numbers
 *
 * hidden_layer_0 is the embedding, and the state of the last layer is the one before the last norm.
 * Castlehill reads f32 and bf16, and does not have int8 and the top logits.
 *
 * The options of kind "anchors":
 *
 *     layers          layers whose states are kept; all: every one; empty: four at equal distances,
 *                     as an alignment reads
 *     store           f32 bf16 int8, int8: each number within 1/254 of the largest of its group
 *     group           numbers that share a scale of int8
 *     top             likeliest tokens whose logits are kept, for distillation, 0: none
 *     shard, shards   this part of the work, and the number of parts
 *     fresh           remove the anchors of the folder, and begin again
 *
 * Lifetime   nothing is kept.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/** Writes what a teacher computes from the rows of one epoch of a loader.
 *
 * Chunks that the folder has already are skipped, so a call that was stopped is repeated. Several
 * processes may write one folder, each a shard. The call that finds all chunks writes
 * manifest.json. Equal calls write equal bytes. A pass has as many chunks as the loader has rows
 * in a batch.
 *
 *   loader      not NULL, without ranks; its position stays
 *   teacher     not NULL
 *   path        not NULL; the folder, which need not exist
 *   opts        NULL: defaults; kind "anchors": layers, store (f32 bf16 int8), group, top, shard,
 *               shards, fresh
 *   task        NULL, or reports rows as progress and cancels between passes
 *   out_chunks  not NULL; the chunks that this call wrote
 *
 * Returns  DLLM_OK; DLLM_INVALID_ARGUMENT for a layer that the teacher lacks, a group that does not
 *          divide its width, a token that it lacks, top logits of a teacher that is not causal, and
 *          a loader of several ranks; DLLM_FAILED_PRECONDITION for anchors that were made with
 *          another teacher or options, naming the option and both values; DLLM_UNIMPLEMENTED for a
 *          teacher that is conditioned on time; DLLM_CANCELLED, DLLM_DEADLINE_EXCEEDED;
 *          DLLM_RESOURCE_EXHAUSTED for a full disk
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_loader_write_anchors(dllm_loader *loader, dllm_model *teacher,
                                               const char *path, const dllm_options *opts,
                                               dllm_task *task, int64_t *out_chunks,
                                               dllm_error *err);

#ifdef __cplusplus
}
#endif
#endif
