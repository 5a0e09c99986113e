#ifndef DLLM_CHECKPOINT_H
#define DLLM_CHECKPOINT_H
/* dllm/checkpoint.h -- save a training run, go on later, look inside.
 *
 *     dllm_checkpoint_save(trainer, loader, "runs/first", NULL, NULL, dir, err);
 *     ...
 *     dllm_checkpoint_latest("runs/first", dir, err);
 *     dllm_checkpoint_restore(trainer, loader, (const char *)dllm_buffer_data(dir), NULL, err);
 *
 * A checkpoint is the folder root/step_000500 with a file COMMIT that is written last and names
 * every file with its size and checksum. Folders without a valid COMMIT are ignored, so a run that
 * is killed at any moment leaves its former checkpoints whole. The model inside opens with
 * dllm_model_load.
 *
 * Lifetime   an open checkpoint stands alone; reads fail when its files change.
 * Threads    reads may run together.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Saves everything a run needs to go on bit for bit: weights, moments, sums, data position,
 * options.
 *
 * With option "wait" off the call returns when a copy of all this is made, and a thread writes the copy while
 * training goes on. A trainer has one such write at a time: the next save waits for it. The copy costs 4 bytes for
 * every trained number and every number the optimizer keeps (12 bytes a parameter with "adamw", 16 with "ema"), until
 * they are written; where the engine's memory_limit has no room for it, the call waits as if "wait" was on. When
 * the write fails, one of these reports it, whichever comes first: the next save, dllm_trainer_sync, the dllm_trainer_run
 * that started it; else the log, when the trainer is released. Release waits for the write.
 *
 *   trainer   not NULL
 *   loader    NULL, or its position is saved too
 *   root      not NULL, the run's folder; made when it does not exist
 *   opts      NULL: defaults; kind "checkpoint": keep_last, script_state (JSON text), wait,
 *             overwrite (of a checkpoint; one that holds other files is never replaced)
 *   task      NULL, or checked every few milliseconds; progress in bytes; never by a write in the background
 *   out_dir   NULL, or gets the path of the new folder, which is there when the write has ended
 *
 * Returns  DLLM_OK; DLLM_ALREADY_EXISTS when this step is saved already, or its place holds files
 *          that no save wrote; DLLM_PERMISSION_DENIED; DLLM_RESOURCE_EXHAUSTED when the disk is
 *          full; DLLM_ABORTED when the weights are lost; DLLM_UNAVAILABLE when another save in
 *          root has not ended after 30 s; DLLM_CANCELLED
 * Owns     nothing
 * Threads  callback
 * Since    1
 */
DLLM_API dllm_status dllm_checkpoint_save(dllm_trainer *trainer, const dllm_loader *loader,
                                          const char *root, const dllm_options *opts,
                                          dllm_task *task, dllm_buffer *out_dir, dllm_error *err);

/* Puts a trainer, its model and a loader back to where they were when the checkpoint was saved.
 *
 * Everything is read and checked before anything is changed. Lines of later steps that a "jsonl"
 * sink of this trainer appended are taken out again: these steps did not last. Where that fails, the
 * log has a warning and the restore is done all the same.
 *
 *   trainer   not NULL, of the same model config and objective
 *   loader    NULL, or moved to the saved position
 *   dir       not NULL, a checkpoint folder, as dllm_checkpoint_latest answers it
 *   task      NULL, or checked every few milliseconds; progress in bytes
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND; DLLM_DATA_LOSS for a checkpoint that is not whole;
 *          DLLM_FAILED_PRECONDITION when it belongs to another model; DLLM_CANCELLED
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_checkpoint_restore(dllm_trainer *trainer, dllm_loader *loader,
                                             const char *dir, dllm_task *task, dllm_error *err);

/* Finds the highest committed checkpoint of a run.
 *
 *   root      not NULL, the run's folder
 *   out_dir   not NULL; the path of the folder
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND when there is none
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_checkpoint_latest(const char *root, dllm_buffer *out_dir,
                                            dllm_error *err);

/* Opens weights to look inside: a checkpoint, a model folder, a safetensors or GGUF file.
 *
 *   path   not NULL
 *   out    not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND; DLLM_DATA_LOSS for a damaged file, the message names file and
 *          tensor
 * Owns     out is yours
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_checkpoint_open(const char *path, dllm_checkpoint **out, dllm_error *err);

/* Gives an open checkpoint back.
 *
 *   ckpt   NULL: does nothing
 *
 * Returns  nothing
 * Owns     ckpt is gone
 * Threads  any
 * Since    1
 */
DLLM_API void dllm_checkpoint_release(dllm_checkpoint *ckpt);

/* Writes what is inside as a JSON object: kind, path, step, metadata, tensors (name, dtype, shape,
 * bytes).
 *
 * Where a config lies beside the weights it has model too: family, attention, shift, mask_token_id,
 * block_length, layers, hidden, vocab, max_length.
 *
 *   ckpt   not NULL
 *   out    not NULL
 *
 * Returns  DLLM_OK
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_checkpoint_describe(const dllm_checkpoint *ckpt, dllm_buffer *out,
                                              dllm_error *err);

/* Reads one tensor; block formats of GGUF come out as f32.
 *
 *   ckpt   not NULL
 *   name   not NULL
 *   out    not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND, the hint names the nearest; DLLM_UNIMPLEMENTED for a type we
 *          do not read; DLLM_DATA_LOSS when the file changed since it was opened
 * Owns     out is yours
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_checkpoint_tensor(const dllm_checkpoint *ckpt, const char *name,
                                            dllm_tensor **out, dllm_error *err);

/* Reads every byte and compares sizes and checksums with COMMIT; without one, checks that all
 * tensors lie inside their files.
 *
 *   ckpt   not NULL
 *   task   NULL, or checked every few milliseconds; progress in bytes
 *
 * Returns  DLLM_OK; DLLM_DATA_LOSS, the message names the first bad file; DLLM_CANCELLED
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_checkpoint_verify(const dllm_checkpoint *ckpt, dllm_task *task,
                                            dllm_error *err);

#ifdef __cplusplus
}
#endif
#endif
