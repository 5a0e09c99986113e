#include "train/options.h"

#include "base/error.h"
#include "train/optimizer.h"

#include <cmath>

namespace dllm::train {
namespace {

// The options of the learning rate.
std::vector<OptionSpec> rate_options() {
  return {
      option_f64("lr", 3e-4, 0.0, 10.0, "Peak learning rate."),
      option_choice(
          "schedule", "constant", {"constant", "linear", "cosine", "wsd", "inverse_sqrt"},
          "Course of the rate after warm-up; linear, cosine and wsd need steps, minutes or "
          "tokens, inverse_sqrt falls as 1 / sqrt(update / warmup)."),
      option_i64("warmup", -1, -1, 1 << 30,
                 "Updates of linear warm-up; -1: warmup_ratio of steps."),
      option_f64("warmup_ratio", 0.05, 0.0, 1.0,
                 "Warm-up as a share of steps, used when warmup is -1."),
      option_i64("steps", 0, 0, int64_t{1} << 40,
                 "Updates of the whole run, the length of the schedule; 0: not known."),
      option_i64("cooldown_start", 0, 0, int64_t{1} << 40,
                 "Update at which schedule wsd starts to fall; 0: a fifth "
                 "before the end."),
      option_f64("minutes", 0.0, 0.0, 1e9,
                 "Budget in minutes, after which a run and its schedule end; 0: none."),
      option_f64("min_lr", 0.0, 0.0, 10.0, "Rate at the end of the schedule."),
  };
}

std::vector<OptionSpec> shared_options() {
  return {
      option_f64("weight_decay", 0.01, 0.0, 10.0, "Decoupled weight decay."),
      option_choice("decay", "matrices", {"matrices", "all"},
                    "Tensors that decay: matrices, or norms and biases too."),
      option_f64("clip", 1.0, 0.0, 1e12, "Largest global norm of the gradient; 0: no clipping."),
      option_i64("accumulate", 1, 1, 1 << 20,
                 "Batches whose gradients make one update in dllm_trainer_run."),
      option_i64("seed", 0, 0, INT64_MAX, "Seed of the noise."),
      option_choice("nonfinite", "stop", {"stop", "skip"},
                    "What happens to a loss or gradient that is not finite. stop: an error; skip: "
                    "the update is left out and counted."),
      option_f64("ema", 0.0, 0.0, 0.9999999,
                 "Decay of the moving average of the weights; 0: no average is kept."),
      option_list("groups", {},
                  "Tensors with their own rate or decay, 'PATTERN lr=0.001 weight_decay=0': the "
                  "first pattern that matches counts; * matches any text."),
      option_f64("layer_decay", 1.0, 0.001, 1.0,
                 "Factor of the rate from each layer to the one below it: head and final norm have "
                 "lr, the last layer has lr times this, embeddings the least; an lr of groups "
                 "stays. 1: all have lr."),
      option_f64(
          "lora_plus", 1.0, 0.001, 1000.0,
          "Factor of the rate of the matrices B of adapters with ranks (LoRA, DoRA), next to "
          "that of all other tensors; LoRA+ takes 16; an lr of groups stays. 1: one rate."),
      option_list("freeze", {}, "Names of tensors that are not trained; * matches any text."),
      option_bool("remat", false,
                  "Recompute each layer in the backward pass: less memory, a third more time."),
      option_choice("activations", "f32", {"f32", "bf16"},
                    "What the layers keep of the forward pass for the backward pass; bf16: half of "
                    "the bytes, and gradients of rounded activations."),
      option_i64("memory", 0, 0, INT64_MAX,
                 "Most bytes of a step, weights and moments included, with offload the window "
                 "offload_mib in place of the moments: the fewest values of a layer that make it "
                 "fit are recomputed; 0: no bound, nothing is recomputed."),
      option_str("offload", "",
                 "Where the optimizer's arrays, the averages and the sums of accumulate are: a "
                 "folder, for a scratch file; ram: memory outside of the engine; empty: with the "
                 "weights. The numbers are the same."),
      option_i64("offload_mib", 64, 1, 1 << 20,
                 "Most MiB of offloaded arrays in memory at one time, on a rank; one layer of one "
                 "matrix at least for adafactor and muon."),
      option_i64("replay", 0, 0, 1 << 20,
                 "Last batches that are kept; some steps align one of them with the teacher again, "
                 "with its noise; 0: none."),
      option_i64("replay_warmup", 50, 1, 1 << 20,
                 "Batches that replay keeps before one is aligned again."),
      option_f64("replay_prob", 0.3, 0.0, 1.0, "Part of the batches that come with a replay."),
      option_f64("replay_weight", 0.1, 0.0, 1e6,
                 "Weight of a replayed alignment, in place of align."),
      option_i64("tokens", 0, 0, INT64_MAX,
                 "Budget in tokens, after which a run and its schedule end; 0: none."),
      option_str("root", "", "Folder that a run saves checkpoints into; empty: none."),
      option_f64(
          "save_every", 0, 0, 1 << 30,
          "Steps between checkpoints of a run; below 1: that part of steps, rounded up, or of "
          "the budget of a run without steps; 0: only at its end."),
      option_bool("save_wait", true,
                  "A run waits until a checkpoint is on disk; false: it is written in the "
                  "background, except at the end. dllm train sets false."),
      option_f64(
          "sync_every", 0, 0, 1 << 30,
          "Steps after which a run waits for all of them, so that a callback can save or evaluate; "
          "engines that run ahead report steps late. Below 1: that part of steps; 0: never."),
      option_i64("keep_last", 3, 0, 1 << 20, "Checkpoints to keep in root; 0: all."),
      option_choice("compat", "none", {"none", "dllm-jax", "dllm", "dmax", "nano", "open-dllm"},
                    "Reproduces the known quirks of a reference."),
  };
}

std::vector<OptionSpec> trainer_rows() {
  std::vector<OptionSpec> rows = rate_options();
  const auto append = [&](std::vector<OptionSpec> more) {
    rows.insert(rows.end(), more.begin(), more.end());
  };
  append({option_choice(
      "optimizer", optimizers().front().name, optimizer_names(),
      "Optimizer, which makes an update of the gradients; each has its own options.")});
  append(optimizer_options());
  append(shared_options());
  return rows;
}

} // namespace

const Schema& trainer_schema() {
  static const Schema schema("trainer", trainer_rows());
  return schema;
}

const Schema& sink_schema() {
  static const Schema schema(
      "sink", {
                  option_i64("every", 1, 1, 1 << 30, "Steps between written lines."),
                  option_bool("append", true,
                              "Go on writing at the end of an existing file. tensorboard: false "
                              "removes the event files of dllm in the folder."),
              });
  return schema;
}

int64_t interval_steps(const char* name, double every, int64_t steps) {
  if (every == 0) return 0;
  if (every >= 1) return static_cast<int64_t>(every);
  if (steps <= 0) {
    fail_with_hint("set steps, or write a number of steps", Code::invalid_argument,
                   "{} {} is a part of a run, and the number of steps of the run is not known",
                   name, every);
  }
  return static_cast<int64_t>(std::ceil(static_cast<double>(steps) * every));
}

Hyper hyper_of(const Options& options) {
  return {options.f64("lr"), options.f64("weight_decay"), options.f64("clip")};
}

} // namespace dllm::train
