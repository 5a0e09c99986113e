#include "train/trainer.h"

#include "base/error.h"
#include "train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dllm::train {
namespace {

// The options of the learning rate.
std::vector<OptionSpec> rate_options() {
  return {
      option_f64("lr", 3e-4, 0.0, 10.0, "Peak learning rate."),
      option_choice("schedule", "constant", {"constant", "linear", "cosine", "wsd", "inverse_sqrt"},
                    "Course of the rate after warm-up; linear, cosine and wsd need steps or "
                    "minutes, inverse_sqrt falls as 1 / sqrt(update / warmup)."),
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
      option_list("freeze", {}, "Names of tensors that are not trained; * matches any text."),
      option_bool("remat", false,
                  "Recompute each layer in the backward pass: less memory, a third more time."),
      option_choice("activations", "f32", {"f32", "bf16"},
                    "What the layers keep of the forward pass for the backward pass; bf16: half of "
                    "the bytes, and gradients of rounded activations."),
      option_i64("memory", 0, 0, INT64_MAX,
                 "Most bytes of a step, weights and moments included: the fewest values of a layer "
                 "that make it fit are recomputed; 0: no bound, nothing is recomputed."),
      option_i64("tokens", 0, 0, INT64_MAX, "Budget in tokens, after which a run ends; 0: none."),
      option_str("root", "", "Folder that a run saves checkpoints into; empty: none."),
      option_f64("save_every", 0, 0, 1 << 30,
                 "Steps between checkpoints of a run; below 1: that part of steps, rounded up; 0: "
                 "only at its end."),
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
                  option_bool("append", true, "Go on writing at the end of an existing file."),
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

namespace {

// Fails for options that count updates when the number of updates is unknown.
void check_by_clock(const Options& options) {
  for (const char* key : {"warmup", "cooldown_start"}) {
    if (options.i64(key) > 0) {
      fail_with_hint("set steps too, or warmup_ratio in place of warmup", Code::invalid_argument,
                     "{} {} counts updates, and with minutes only their number is not known", key,
                     options.i64(key));
    }
  }
}

} // namespace

LearningRate learning_rate_of(const Options& options) {
  LearningRate made;
  made.kind = options.str("schedule");
  made.total = options.i64("steps");
  made.by_clock = made.total == 0 && options.f64("minutes") > 0;
  if (made.by_clock) check_by_clock(options);
  if (made.by_clock) made.total = LearningRate::kClockTicks;
  const bool falls_to_an_end = made.kind != "constant" && made.kind != "inverse_sqrt";
  if (falls_to_an_end && made.total == 0) {
    fail_with_hint("set steps or minutes, or schedule = constant", Code::invalid_argument,
                   "schedule {} needs the number of steps", made.kind);
  }
  const double peak = options.f64("lr");
  if (options.f64("min_lr") > peak) {
    fail(Code::invalid_argument, "min_lr {} is above lr {}", options.f64("min_lr"), peak);
  }
  made.floor_share = peak > 0 ? options.f64("min_lr") / peak : 0.0;
  made.warmup =
      options.i64("warmup") >= 0
          ? options.i64("warmup")
          : static_cast<int64_t>(static_cast<double>(made.total) * options.f64("warmup_ratio"));
  const int64_t cooldown = options.i64("cooldown_start");
  made.cooldown_start = cooldown > 0 ? cooldown : made.total - made.total / 5;
  if (made.kind == "inverse_sqrt" && made.warmup < 1) {
    fail_with_hint(
        "set warmup = 1000, or warmup_ratio and steps", Code::invalid_argument,
        "schedule inverse_sqrt falls from the end of warm-up on, and the run has no warm-up");
  }
  if (falls_to_an_end && made.warmup >= made.total && made.total > 1) {
    fail_with_hint("set warmup below steps", Code::invalid_argument,
                   "warmup {} leaves nothing of {} steps, expected a smaller number", made.warmup,
                   made.total);
  }
  const std::string& compat = options.str("compat");
  made.starts_at_zero = compat == "dllm-jax" || compat == "dllm" || compat == "nano";
  return made;
}

double LearningRate::factor(int64_t updates, double clock) const {
  const auto ticks = static_cast<int64_t>(clock * static_cast<double>(total));
  updates = by_clock ? ticks : std::max(updates, ticks);
  if (updates < warmup) {
    return static_cast<double>(starts_at_zero ? updates : updates + 1) /
           static_cast<double>(warmup);
  }
  if (kind == "constant") return 1.0;
  if (kind == "inverse_sqrt") { // Vaswani et al. 2017, section 5.3
    const double share =
        static_cast<double>(warmup) / static_cast<double>(updates + (starts_at_zero ? 0 : 1));
    return std::max(std::sqrt(std::min(share, 1.0)), floor_share);
  }
  const int64_t begin = kind == "wsd" ? std::max(cooldown_start, warmup) : warmup;
  if (updates < begin) return 1.0;
  const auto length = static_cast<double>(std::max<int64_t>(total - begin, 1));
  const double part = std::min(static_cast<double>(updates - begin) / length, 1.0);
  const double left =
      kind == "cosine" ? 0.5 * (1.0 + std::cos(std::numbers::pi * part)) : 1.0 - part;
  return floor_share + (1.0 - floor_share) * left;
}

} // namespace dllm::train
