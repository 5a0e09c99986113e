#include "train/learning_rate.h"

#include "base/error.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dllm::train {
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
