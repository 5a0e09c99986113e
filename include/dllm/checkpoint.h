#ifndef DLLM_CHECKPOINT_H
#define DLLM_CHECKPOINT_H
/* dllm/checkpoint.h -- save a training run, resume it, read its tensors.
 *
 *     dllm_checkpoint_save(trainer, loader, "runs/first", NULL, NULL, dir, err);
 *     ...
 *     dllm_checkpoint_latest("runs/first", dir, err);
 *     dllm_checkpoint_restore(trainer, loader, (const char *)dllm_buffer_data(dir), NULL, err);
 *
 * A checkpoint is the folder root/step_000500 with a file COMMIT. COMMIT is written last and names
 * every file with its size and checksum. Folders without a valid COMMIT are ignored, so a run that
 * is killed at any moment keeps its earlier checkpoints. dllm_model_load opens the model inside.
 *
 * root and path may be places in an object store ("s3://bucket/runs/first", "gs://..."); the
 * environment has its keys (docs/guide/scale.md). A save is written locally and then uploaded,
 * COMMIT last.
 *
 * Lifetime   an open checkpoint needs no other object; reads fail when its files change.
 * Threads    reads may run together.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/** Saves everything needed to resume a run bit for bit.
 *
 * A checkpoint holds weights, optimizer state, gradient sums, the position of the data and options.
 *
 * With option "wait" off the call copies all of this and returns. A thread writes the copy while
 * training continues. A trainer has one such write at a time: the next save waits for it. The
 * release of the trainer waits for the write too.
 *
 * The copy needs 4 bytes for every trained number and every number of the optimizer state: 12 bytes
 * per parameter with "adamw", 16 with "ema". The trainer keeps this memory for the next copy until
 * it is released. When the engine's memory_limit has no room for the copy, the memory is freed and
 * the call waits as with "wait" on.
 *
 * The failure of a write is returned by the first of these calls: the next save, dllm_trainer_sync,
 * the dllm_trainer_run that started the write. If there is no such call, the failure is logged when
 * the trainer is released.
 *
 *   trainer   not NULL
 *   loader    NULL, or its position is saved too
 *   root      not NULL, the run's folder; created when it does not exist
 *   opts      NULL: defaults; kind "checkpoint": keep_last, keep_steps (steps that keep_last does
 *             not remove), script_state (JSON text), wait, overwrite (of a checkpoint; one that
 *             holds other files is never replaced)
 *   task      NULL, or checked every few milliseconds; progress in bytes; a write in the background
 *             does not check it
 *   out_dir   NULL, or gets the path of the new folder, which exists when the write has ended
 *
 * Returns  DLLM_OK; DLLM_ALREADY_EXISTS when this step is saved already, or its folder holds files
 *          that were not written by a save; DLLM_PERMISSION_DENIED; DLLM_RESOURCE_EXHAUSTED when
 *          the disk is full; DLLM_ABORTED when the weights are lost; DLLM_UNAVAILABLE when another
 *          save in root has not ended after 30 s; DLLM_CANCELLED
 * Owns     nothing
 * Threads  callback
 * Since    1
 */
DLLM_API dllm_status dllm_checkpoint_save(dllm_trainer *trainer, const dllm_loader *loader,
                                          const char *root, const dllm_options *opts,
                                          dllm_task *task, dllm_buffer *out_dir, dllm_error *err);

/** Restores a trainer, its model and a loader to the state of a checkpoint.
 *
 * Everything is read and checked before anything is changed. Lines of later steps that a sink
 * "jsonl" or "csv" of this trainer appended are removed from its file. A sink "tensorboard" adds a
 * record that makes TensorBoard drop them. If that fails, a warning is logged and the restore still
 * succeeds.
 *
 *   trainer   not NULL, of the same model config and objective
 *   loader    NULL, or set to the saved position
 *   dir       not NULL, a checkpoint folder, as returned by dllm_checkpoint_latest
 *   task      NULL, or checked every few milliseconds; progress in bytes
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND; DLLM_DATA_LOSS for an incomplete or damaged checkpoint;
 *          DLLM_FAILED_PRECONDITION when it belongs to another model, or when a quantized tensor
 *          that is not trained has other numbers than in the model; DLLM_CANCELLED
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_checkpoint_restore(dllm_trainer *trainer, dllm_loader *loader,
                                             const char *dir, dllm_task *task, dllm_error *err);

/** Finds the highest committed checkpoint of a run.
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

/** Finds the highest committed checkpoint; a task can cancel it. Else as dllm_checkpoint_latest.
 *
 *   root      not NULL, the run's folder
 *   task      NULL, or checked every few milliseconds while an object store is read; files on a
 *             disk are read without checks
 *   out_dir   not NULL; the path of the folder
 *
 * Returns  as dllm_checkpoint_latest; DLLM_CANCELLED; DLLM_DEADLINE_EXCEEDED
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_checkpoint_latest_task(const char *root, dllm_task *task,
                                                 dllm_buffer *out_dir, dllm_error *err);

/** Opens weights for reading: a checkpoint, a model folder, a safetensors, PyTorch or GGUF file.
 *
 *   path   not NULL
 *   out    not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND; DLLM_DATA_LOSS for a damaged file, the message names file and
 *          tensor; DLLM_FAILED_PRECONDITION for a folder with the weights of two models, the
 *          message names the files
 * Owns     caller owns out
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_checkpoint_open(const char *path, dllm_checkpoint **out, dllm_error *err);

/** Opens weights for reading; a task can cancel it. Else as dllm_checkpoint_open.
 *
 *   path   not NULL
 *   task   NULL, or checked every few milliseconds while an object store is read; files on a disk
 *          are read without checks
 *   out    not NULL
 *
 * Returns  as dllm_checkpoint_open; DLLM_CANCELLED; DLLM_DEADLINE_EXCEEDED
 * Owns     caller owns out
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_checkpoint_open_task(const char *path, dllm_task *task,
                                               dllm_checkpoint **out, dllm_error *err);

/** Releases an open checkpoint.
 *
 *   ckpt   NULL: does nothing
 *
 * Returns  nothing
 * Owns     releases ckpt
 * Threads  any
 * Since    1
 */
DLLM_API void dllm_checkpoint_release(dllm_checkpoint *ckpt);

/** Writes a description as a JSON object: kind, path, step, metadata, tensors (name, dtype, shape,
 * bytes), and for a checkpoint parts (name, kind, stored, address).
 *
 * A part may also have family, layers, hidden, parameters, inputs, latents, context, level, heads,
 * trained (whether the run changed it) and reads (the parts whose results it reads). A model folder
 * of several networks has parts too.
 *
 * Parts are stored by value or by reference. Tensors of a part by reference are not listed, and
 * tensors of an adapter have its name before theirs: "adapter:default/...".
 *
 * When a config.json is next to the weights, the object also has model. Its members are family,
 * attention, shift, mask_token_id, block_length, layers, hidden, vocab, max_length, and objective
 * when it is known.
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

/** Reads one tensor; block formats of GGUF are converted to f32.
 *
 *   ckpt   not NULL
 *   name   not NULL
 *   out    not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND, the hint names the nearest; DLLM_UNIMPLEMENTED for a
 *          type that dllm does not read; DLLM_DATA_LOSS when the file changed since it was opened
 * Owns     caller owns out
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_checkpoint_tensor(const dllm_checkpoint *ckpt, const char *name,
                                            dllm_tensor **out, dllm_error *err);

/** Reads every byte and compares sizes and checksums with COMMIT.
 *
 * Without a COMMIT it checks that all tensors are inside their files.
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

/** Reads every byte of a checkpoint folder and writes the faults of each file as a JSON object.
 *
 * dllm_checkpoint_verify stops at the first fault; this function reports all of them. The object
 * has step, files (path, size and crc32 as in COMMIT; fault, a text that is "" for a file without
 * one) and unlisted (files that COMMIT does not name).
 *
 *   dir    not NULL, a checkpoint folder
 *   task   NULL, or checked every few milliseconds; progress in bytes
 *   out    not NULL
 *
 * Returns  DLLM_OK, also when files have faults; DLLM_NOT_FOUND without a COMMIT; DLLM_DATA_LOSS
 *          for a COMMIT that cannot be read; DLLM_CANCELLED; DLLM_DEADLINE_EXCEEDED
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_checkpoint_check(const char *dir, dllm_task *task, dllm_buffer *out,
                                           dllm_error *err);

#ifdef __cplusplus
}
#endif
#endif
