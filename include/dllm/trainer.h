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
 * dllm_trainer_run is the same loop with events. accumulate and apply are the two halves of a step,
 * for batches that are too large for memory. accumulate sums gradients and counts, and apply
 * divides them once.
 *
 * Steps in flight. On the CPU engine a call returns when its step is complete. An engine of kind
 * "pjrt" starts the step. With out_loss NULL, and in dllm_trainer_run, the call does not wait, and
 * the next batch is prepared while the device works. At most two steps are in flight.
 *
 * The results of steps in flight are late. Metrics, events and sinks are up to two steps late, in
 * order, each event with its own step. "skipped" counts only steps whose results were read. A later
 * call returns the failure of a step and names the step. A call with out_loss, dllm_trainer_sync,
 * an evaluation, a checkpoint and the end of a run wait for all steps.
 *
 * After a loss that is not finite, "nonfinite" = "stop" makes the later steps in flight change no
 * weight. They do not count, and their batches are lost. With "skip" the later steps in flight used
 * a learning rate and a bias correction of AdamW that counted the skipped step as an update.
 *
 * Lifetime   a trainer keeps its model and its objective alive.
 * Threads    one call at a time per trainer, which is the only writer of its model; metric,
 *            describe and model may be called at any time.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/** Creates a trainer at step 0.
 *
 * The model's trained parameters become f32. A model without a mask token gets one when the
 * objective needs it. During this call no decoder of the model may step, and no save or param of
 * the model may run. If the call fails, the model is not changed.
 *
 * The model takes the attention and the shift of the objective, also for decoding and saving. A
 * next-token model (causal, its file names no shift and no mask token) gets shift 1 from an
 * objective that masks. Options of kind "model" that the model was created with are kept.
 *
 * The options of kind "trainer" for the learning rate and the length of a run:
 *
 *     lr               peak learning rate
 *     schedule         constant linear cosine wsd inverse_sqrt, after the warm-up
 *     warmup           updates of linear warm-up; -1: the part warmup_ratio of steps
 *     steps            updates of the whole run; 0: not known
 *     minutes          a run ends after this time, and the schedule with it; 0: no limit
 *     tokens           a run ends after this number of tokens, and the schedule with it; 0: no
 *                      limit
 *     cooldown_start   update at which wsd starts to fall; 0: a fifth before the end
 *     min_lr           learning rate at the end of the schedule
 *
 * For an update:
 *
 *     optimizer        its name; dllm_registry_name("optimizer", i) lists them. Each optimizer has
 *                      options of its own, in group "optimizer" of dllm_options_schema("trainer")
 *     weight_decay     decoupled weight decay
 *     decay            what decays: matrices, or all (norms and biases too)
 *     clip             largest global norm of the gradient; 0: no clipping
 *     accumulate       batches of one update in dllm_trainer_run
 *     seed             seed of the noise
 *     nonfinite        stop or skip, for a loss or gradient that is not finite
 *     ema              decay of the moving average of the weights; 0: no average
 *     groups           tensors with their own lr or weight_decay, see below
 *     layer_decay      factor of the rate from each layer to the one below it; 1: one rate
 *     lora_plus        factor of the rate of matrices B of adapters (LoRA+: 16); 1: one rate
 *     freeze           patterns of tensors that this trainer does not change
 *     compat           the reference whose known quirks are reproduced
 *
 * For an objective with align above 0, whose earlier batches may be aligned again:
 *
 *     replay           last batches that are kept on the host; 0: none. One process only
 *     replay_warmup    batches that are kept before one is aligned again
 *     replay_prob      part of the batches that come with one of these, drawn by seed
 *     replay_weight    weight of its alignment, in place of align; metric replay has its mean
 *
 * For memory and checkpoints:
 *
 *     remat            every layer is computed again in the backward pass
 *     activations      type of the activations that are kept for the backward pass
 *     memory           most bytes of a step; values are computed again to fit; with offload the
 *                      window offload_mib counts, not the whole arrays; 0: no limit
 *     offload          place of the optimizer's arrays: a folder, ram; empty: with the weights
 *     offload_mib      most MiB of offloaded arrays in memory at one time
 *     root             folder of the checkpoints of a run; empty: no checkpoints
 *     save_every       steps between checkpoints; below 1: a part of steps; 0: only at the end
 *     save_wait        training waits until a checkpoint is on disk
 *     sync_every       steps after which a run waits for its steps in flight; 0: never
 *     keep_last        checkpoints to keep in root; 0: all
 *
 * An entry of groups is a pattern of tensor names and their settings, "*embed_tokens* lr=0.001
 * weight_decay=0". Its lr follows the schedule, and dllm_trainer_set_f64 of lr scales it. With
 * layer_decay d and n layers, layer l has lr d^(n - l), what precedes the layers lr d^(n + 1), and
 * what follows them lr; adapters have the rate of their layer, and a group's own lr stays. With
 * compat open-dllm, layer l has lr d^(1 - l / (n - 1)), and all other tensors have lr. freeze is
 * an option of this trainer only: the next trainer of the model trains every tensor that its own
 * freeze does not name.
 *
 *   model       not NULL
 *   objective   not NULL
 *   opts        NULL: defaults; kind "trainer": lr, schedule, warmup, warmup_ratio, steps, minutes,
 *               cooldown_start, min_lr, optimizer, weight_decay, decay, clip, accumulate, seed,
 *               nonfinite, ema, groups (list), layer_decay, lora_plus, freeze (list), remat,
 *               activations (f32 bf16), memory, offload, offload_mib, replay, replay_warmup,
 *               replay_prob, replay_weight, tokens, root, save_every, save_wait, sync_every,
 *               keep_last, compat, those of group "optimizer"
 *   out         not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND for a pattern of groups or freeze that matches no tensor;
 *          DLLM_FAILED_PRECONDITION when a mask token has to be added and the model's tokenizer
 *          holds no tokens; DLLM_INVALID_ARGUMENT for an option of an optimizer that is not the
 *          chosen one, when every tensor is frozen, or for replay without an alignment;
 *          DLLM_UNIMPLEMENTED for replay in a job of several processes; DLLM_ABORTED when the
 *          model's weights are lost; DLLM_RESOURCE_EXHAUSTED
 * Owns     caller owns out, which keeps model, objective
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_trainer_new(dllm_model *model, dllm_objective *objective,
                                      const dllm_options *opts, dllm_trainer **out,
                                      dllm_error *err);

/** Releases a trainer; the model keeps its trained weights.
 *
 * It waits for a checkpoint that is being written in the background. A failure of that write is
 * logged when no call has returned it.
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
 * A step that fails or is cancelled changes no weight and does not count. An update that has begun
 * is finished. It reads and writes 28 bytes per parameter: 0.6 s for 494 million parameters on two
 * cores.
 *
 *   trainer    not NULL
 *   batch      not NULL, token rows or prepared arrays
 *   task       NULL, or checked until the weights begin to change; then the step is finished
 *   out_loss   NULL: do not wait for the result; else the loss before the update, in nats
 *
 * Returns  DLLM_OK; DLLM_INVALID_ARGUMENT for a missing array or a wrong shape;
 *          DLLM_FAILED_PRECONDITION while gradients are accumulated; the status of a device error,
 *          and DLLM_ABORTED after it; DLLM_ABORTED when the loss is not finite and option nonfinite
 *          is "stop"; DLLM_RESOURCE_EXHAUSTED when the step does not fit into option memory even
 *          with the most recomputation (the message names the least that fits); DLLM_UNIMPLEMENTED
 *          for option memory on an engine that does not plan its memory; DLLM_CANCELLED
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_trainer_step(dllm_trainer *trainer, const dllm_batch *batch,
                                       dllm_task *task, double *out_loss, dllm_error *err);

/** Adds the gradients of one batch to the sum, without an update.
 *
 * Batches of one update get the same noise as one large batch of all their rows. Some objectives
 * spread times over the rows of the whole update (time_sampling low_discrepancy). They compute the
 * number of rows from option accumulate and the rows of this batch. All batches of the update must
 * then have the same number of rows.
 *
 *   trainer   not NULL
 *   batch     not NULL, token rows or prepared arrays
 *   task      NULL, or checked until the sums begin to change; then the call is finished
 *
 * Returns  DLLM_OK; DLLM_INVALID_ARGUMENT; DLLM_FAILED_PRECONDITION when the objective spreads
 *          times and option accumulate is reached; the status of a device error, and DLLM_ABORTED
 *          after it; DLLM_CANCELLED
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_trainer_accumulate(dllm_trainer *trainer, const dllm_batch *batch,
                                             dllm_task *task, dllm_error *err);

/** Divides the summed gradients by the summed count, clips them and updates the weights.
 *
 *   trainer    not NULL
 *   task       NULL, or checked until the weights begin to change
 *   out_loss   NULL: do not wait for the result; else the mean loss of the accumulated batches, in
 *              nats
 *
 * Returns  DLLM_OK; DLLM_FAILED_PRECONDITION when nothing is accumulated, or when the objective
 *          spreads times and fewer batches than option accumulate are summed; the status of a
 *          device error, and DLLM_ABORTED after it; DLLM_ABORTED when the loss is not finite and
 *          option nonfinite is "stop"; DLLM_CANCELLED
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_trainer_apply(dllm_trainer *trainer, dllm_task *task, double *out_loss,
                                        dllm_error *err);

/** Waits for all steps in flight and for a checkpoint in the background; returns the first failure.
 *
 * A failure is returned once. After a device error the trainer's state is lost: restore a
 * checkpoint.
 *
 *   trainer   not NULL
 *
 * Returns  DLLM_OK; the status of the failed step or of the failed save
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_trainer_sync(dllm_trainer *trainer, dllm_error *err);

/** Runs many steps with batches of a loader and sends an event for each.
 *
 * It sends TRAIN_STEP for every step and CHECKPOINT for every save into option "root". DLLM_STOP
 * and the budgets (options "tokens", "minutes") end the run without an error. Steps in flight are
 * then finished, and sinks get their events. A budget counts all runs of the trainer, and the run
 * whose checkpoint was restored. A run after a used budget takes no step.
 *
 * With option "save_wait" off, every checkpoint except the last is written in the background (see
 * dllm_checkpoint_save). These writes have ended when the run returns or fails.
 *
 * A cancelled run discards the current step and returns its batch to the loader. If the update of
 * the weights has begun, the step is finished instead. A cancelled run saves a checkpoint when
 * option root is set and the run has completed a step.
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
 * The noise depends only on the loader's position, so two evaluations of the same text can be
 * compared.
 *
 *   trainer       not NULL
 *   loader        not NULL, usually of split "held_out"
 *   max_batches   1 or more; fewer when the data ends first
 *   task          NULL, or checked inside every batch; progress in batches
 *   out_loss      not NULL; nats
 *
 * Returns  DLLM_OK; DLLM_OUT_OF_RANGE when there is no batch, or no token to learn; DLLM_ABORTED
 *          when the weights are lost; DLLM_CANCELLED
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
 *             the life of the trainer) "input_wait" (seconds that a step of a run waited for its
 *             batches) "rank_wait" (seconds of a step that a rank of this process waited for slower
 *             ranks, the longest wait of all its ranks) "run_seconds" (of all runs; with
 *             option minutes also of those before a restore); "nll" when the objective has one;
 *             after dllm_trainer_eval also "held_out_loss" (nats), "held_out_stderr" (its standard
 *             error over rows) and "held_out_bits_per_byte", where they exist
 *   out       not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND, the hint names the nearest
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_trainer_metric(const dllm_trainer *trainer, const char *key, double *out,
                                         dllm_error *err);

/** Writes a description of the trainer as a JSON object.
 *
 * It has all metrics and their "units", the effective options, and the optimizer's state arrays.
 * "recomputed" is the number of values of a layer that the last step computed again to fit option
 * memory. With option offload it has "offload": {"place", "bytes", "window"}, the bytes there and
 * the most bytes of them in memory at one time, of one rank. Where tensors have rates or weight
 * decays of their own (groups, layer_decay), "optimizer" has "rates": a list of {"lr_factor",
 * "weight_decay", "parameters", "tensors"} from the smallest factor of lr on.
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
 *     console       a line of progress on standard error
 *     jsonl         a file with one JSON object per line, for every event
 *     csv           a file with one line per step and per held-out loss, and the same columns for
 *                   every run
 *     tensorboard   a folder of event files for TensorBoard, one file per sink
 *
 * A failed write (a full disk) is reported once: the run completes its step, saves a checkpoint and
 * fails. Records that could not be written are kept and written with the next one.
 *
 *   trainer   not NULL
 *   kind      not NULL: "console", "jsonl", "csv" or "tensorboard"
 *   target    NULL only for "console"; the path of the file or folder
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
