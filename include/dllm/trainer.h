#ifndef DLLM_TRAINER_H
#define DLLM_TRAINER_H
/* dllm/trainer.h -- train a model.
 *
 *     dllm_trainer_new(model, objective, opts, &trainer, err);
 *     for (step = 0; step < 1000; step++) {
 *       dllm_loader_next(loader, &batch, err);
 *       dllm_trainer_step(trainer, batch, task, &loss, err);
 *       dllm_batch_release(batch);
 *     }
 *
 * or dllm_trainer_run, which is the same loop with events. accumulate and apply are the two halves
 * of a step, for batches that are too large for memory: gradients and counts are summed, then divided
 * once.
 *
 * Steps in flight. On the CPU engine a call returns when its step is complete. An engine of kind "pjrt"
 * starts it; with out_loss NULL, and in dllm_trainer_run, the call does not wait, and the next batch is
 * prepared while the device works. At most two steps are in flight. Their results are late: metrics,
 * events and sinks are up to two steps behind, in order, each event with its own step; "skipped" counts
 * only steps whose results were read; a later call returns the failure of a step and names the step.
 * After a loss that is not finite ("nonfinite" = "stop") the later steps in flight change no weight and
 * do not count; their batches are lost. With "skip" the later steps in flight used a learning rate and a
 * bias correction of AdamW that counted the skipped step as an update. A call with out_loss,
 * dllm_trainer_sync, an evaluation, a checkpoint and the end of a run wait for all steps.
 *
 * Lifetime   a trainer keeps its model and its objective alive.
 * Threads    one call at a time per trainer, which is the only writer of its model; metric, describe and
 *            model may be called at any time.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/** Creates a trainer at step 0. The model's trained parameters become f32, and a model without a mask
 * token gets one: no decoder of it may step meanwhile, and no save or param of the same model may run.
 *
 * The model gets a mask token when the objective needs one and it has none. Its attention and shift
 * become those of the objective, for decoding and saving too. A next-token model (causal, its file
 * names no shift and no mask token) gets shift 1 from an objective that masks. Options of kind "model"
 * that the model was created with are kept.
 *
 *   model       not NULL
 *   objective   not NULL
 *   opts        NULL: defaults; kind "trainer": lr, schedule, warmup, warmup_ratio, steps, minutes,
 *               cooldown_start, min_lr, optimizer (adamw adafactor lion muon sgd), weight_decay, decay,
 *               clip, accumulate, seed, nonfinite, ema, groups (list), freeze (list), remat, activations (f32 bf16),
 *               memory, tokens, root, save_every, save_wait, sync_every, keep_last, compat, beta1 (adamw, muon),
 *               beta2 (adamw, muon), eps (adamw, muon), factor_decay (adafactor), factor_clip (adafactor),
 *               factor_from (adafactor), factor_relative (adafactor), lion_beta1 (lion),
 *               lion_beta2 (lion), muon_momentum (muon), muon_nesterov (muon), muon_scale (muon),
 *               momentum (sgd), nesterov (sgd)
 *
 * An entry of groups is a pattern of tensor names and what differs for them, "*embed_tokens* lr=0.001
 * weight_decay=0". lr follows the schedule as that of the rest does, and dllm_trainer_set_f64 of lr
 * scales it. freeze holds for this trainer alone: the next one of the model trains what it does not
 * name. Where the call fails, the model is what it was.
 *   out         not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND for a pattern of groups or freeze that matches no tensor;
 *          DLLM_FAILED_PRECONDITION when a mask token has to be added and the model's
 *          tokenizer holds no tokens; DLLM_INVALID_ARGUMENT for an option of an optimizer that is
 *          not the chosen one, or when every tensor is frozen; DLLM_ABORTED when the model's
 *          weights are lost; DLLM_RESOURCE_EXHAUSTED
 * Owns     caller owns out, which keeps model, objective
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_trainer_new(dllm_model *model, dllm_objective *objective,
                                      const dllm_options *opts, dllm_trainer **out,
                                      dllm_error *err);

/** Releases a trainer; the model keeps its trained weights. Waits for a checkpoint that is being written in
 * the background; its failure is logged when no call has returned it.
 *
 *   trainer   NULL: does nothing
 *
 * Returns  nothing
 * Owns     releases trainer
 * Threads  any
 * Since    1
 */
DLLM_API void dllm_trainer_release(dllm_trainer *trainer);

/** Runs one optimizer step on one batch.
 *
 * A step that fails or is cancelled changes no weight and does not count. An update that has begun is
 * finished: it reads and writes 28 bytes per parameter: 0.6 s for 494 million on two cores.
 *
 *   trainer    not NULL
 *   batch      not NULL, token rows or prepared arrays
 *   task       NULL, or checked until the weights begin to change; then the step is finished
 *   out_loss   NULL: do not wait for the result; else the loss before the update, in nats
 *
 * Returns  DLLM_OK; DLLM_INVALID_ARGUMENT for a missing array or a wrong shape;
 *          DLLM_FAILED_PRECONDITION while gradients are accumulated; the status of a device
 *          error, and DLLM_ABORTED after it; DLLM_ABORTED when the loss is not finite and option
 *          nonfinite is "stop"; DLLM_RESOURCE_EXHAUSTED when the step does not fit option memory however
 *          much is recomputed (the message names the least), DLLM_UNIMPLEMENTED for that option on an
 *          engine that does not plan its memory; DLLM_CANCELLED
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_trainer_step(dllm_trainer *trainer, const dllm_batch *batch,
                                       dllm_task *task, double *out_loss, dllm_error *err);

/** Adds the gradients of one batch to the sum, without an update.
 *
 * Batches of one update draw the same noise as one large batch of all their rows. Objectives that
 * spread times over the rows of the whole update (time_sampling low_discrepancy) compute the number of
 * rows from option accumulate and the rows of this batch, which must be equal in all batches.
 *
 *   trainer   not NULL
 *   batch     not NULL, token rows or prepared arrays
 *   task      NULL, or checked until the sums begin to change; then the call is finished
 *
 * Returns  DLLM_OK; DLLM_INVALID_ARGUMENT; DLLM_FAILED_PRECONDITION when the objective spreads
 *          times and option accumulate is reached; the status of a device error, and
 *          DLLM_ABORTED after it; DLLM_CANCELLED
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_trainer_accumulate(dllm_trainer *trainer, const dllm_batch *batch,
                                             dllm_task *task, dllm_error *err);

/** Divides the summed gradients by the summed count, clips, updates the weights.
 *
 *   trainer    not NULL
 *   task       NULL, or checked until the weights begin to change
 *   out_loss   NULL: do not wait for the result; else the mean loss of the accumulated batches, in
 *              nats
 *
 * Returns  DLLM_OK; DLLM_FAILED_PRECONDITION when nothing is accumulated, or fewer batches than
 *          option accumulate and the objective spreads times; the status of a device error,
 *          and DLLM_ABORTED after it; DLLM_ABORTED when the loss is not finite and option nonfinite
 *          is "stop"; DLLM_CANCELLED
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_trainer_apply(dllm_trainer *trainer, dllm_task *task, double *out_loss,
                                        dllm_error *err);

/** Waits for all steps in flight and for a checkpoint that is written in the background; returns the first
 * late failure.
 *
 * A failure is returned once. After a device error the trainer's state is lost: restore a checkpoint.
 *
 *   trainer   not NULL
 *
 * Returns  DLLM_OK; what the failed step, or the failed save, would have returned
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_trainer_sync(dllm_trainer *trainer, dllm_error *err);

/** Runs many steps with batches of a loader and sends an event for each.
 *
 * Sends TRAIN_STEP for every step and CHECKPOINT for every save into option "root". DLLM_STOP and
 * the budgets (options "tokens", "minutes") end the run without an error; steps in flight are
 * finished, and sinks get their events. With option "save_wait" off, checkpoints are written in the
 * background (see dllm_checkpoint_save), except the last: when the run returns or fails, these writes have ended.
 * A cancelled run discards the current step, unless the update of the weights has begun (that one is
 * finished), returns its batch to the loader, and saves a checkpoint when option root is set and it has
 * completed a step.
 *
 *   trainer     not NULL
 *   loader      not NULL
 *   steps       additional steps, 0 or more
 *   fn          NULL, or called on this thread between steps
 *   user_data   NULL, or passed to fn
 *   task        NULL, or checked inside every step; progress in steps
 *
 * Returns  DLLM_OK; DLLM_OUT_OF_RANGE when the data ends first; DLLM_CALLBACK_FAILED;
 *          DLLM_RESOURCE_EXHAUSTED when the disk of a sink or a checkpoint is full; all of
 *          dllm_trainer_step
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_trainer_run(dllm_trainer *trainer, dllm_loader *loader, int64_t steps,
                                      dllm_event_fn fn, void *user_data, dllm_task *task,
                                      dllm_error *err);

/** Computes the mean loss over batches of a loader, without an update.
 *
 * The noise depends only on the loader's position, so two evaluations of the same text are comparable.
 *
 *   trainer       not NULL
 *   loader        not NULL, usually of split "held_out"
 *   max_batches   1 or more; fewer when the data ends first
 *   task          NULL, or checked inside every batch; progress in batches
 *   out_loss      not NULL; nats
 *
 * Returns  DLLM_OK; DLLM_OUT_OF_RANGE when there is no batch; DLLM_ABORTED when the weights are
 *          lost; DLLM_CANCELLED
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_trainer_eval(dllm_trainer *trainer, dllm_loader *loader,
                                       int64_t max_batches, dllm_task *task, double *out_loss,
                                       dllm_error *err);

/** Reads one metric of the last step whose results were read.
 *
 *   trainer   not NULL
 *   key       not NULL: "step" "loss" "lr" "grad_norm" "tokens" "tokens_per_second" "mfu" "memory"
 *             "compiles" "skipped" "checkpoint_stall_seconds" (training stood still for saves, over
 *             the life of the trainer) "input_wait" (seconds a step of a run waited for its
 *             batches) "rank_wait" (seconds of a step that a rank of this process waited for slower
 *             ones, the one that waited longest); "nll" when the objective has one
 *   out       not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND, the hint names the nearest
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_trainer_metric(const dllm_trainer *trainer, const char *key, double *out,
                                         dllm_error *err);

/** Writes all metrics and their "units", the effective options, the optimizer's state arrays, and
 * "recomputed", how many values of a layer the last step computed again to fit option memory, as a
 * JSON object.
 *
 *   trainer   not NULL
 *   out       not NULL
 *
 * Returns  DLLM_OK
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_trainer_describe(const dllm_trainer *trainer, dllm_buffer *out,
                                           dllm_error *err);

/** Changes a setting between steps.
 *
 *   trainer   not NULL
 *   key       not NULL: "lr" "weight_decay" "clip"
 *   value     finite, 0 or more
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND for an unknown key; DLLM_INVALID_ARGUMENT when out of range
 * Owns     nothing
 * Threads  callback
 * Since    1
 */
DLLM_API dllm_status dllm_trainer_set_f64(dllm_trainer *trainer, const char *key, double value,
                                          dllm_error *err);

/** Adds a sink that every event of the trainer is written to.
 *
 * A failed write (a full disk) is reported once: the run ends after that step, which is complete, saves
 * a checkpoint and fails. Lines that could not be written are kept and written with the next one.
 *
 *   trainer   not NULL
 *   kind      not NULL: "jsonl" (a file, one JSON object per line), "console" (standard error)
 *   target    NULL only for "console"; the path of the file
 *   opts      NULL: defaults; kind "sink": every (steps), append
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND for an unknown kind; DLLM_PERMISSION_DENIED;
 *          DLLM_INVALID_ARGUMENT for a folder or a pipe
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_trainer_add_sink(dllm_trainer *trainer, const char *kind,
                                           const char *target, const dllm_options *opts,
                                           dllm_error *err);

/** Returns the model in one of its roles. "ema" waits while a step writes the average.
 *
 *   trainer   not NULL
 *   role      not NULL: "live" (what is trained), "ema" (its moving average, a copy)
 *   out       not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND for an unknown role; DLLM_FAILED_PRECONDITION for "ema" without
 *          one; DLLM_ABORTED for "ema" when the weights are lost
 * Owns     caller owns out
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_trainer_model(const dllm_trainer *trainer, const char *role,
                                        dllm_model **out, dllm_error *err);

#ifdef __cplusplus
}
#endif
#endif
