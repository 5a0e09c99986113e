#include "train/learning_rate.h"

#include "base/error.h"
#include "base/log.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace dllm::train {

LearningRate learning_rate_of(const Options& options) {
  LearningRate made;
  made.kind = options.str("schedule");
  made.total = options.i64("steps");
  const bool falls_to_an_end = made.kind != "constant" && made.kind != "inverse_sqrt";
  const int64_t warmup = options.i64("warmup"), cooldown = options.i64("cooldown_start");
  const bool has_budget = options.f64("minutes") > 0 || options.i64("tokens") > 0;
  made.by_clock = made.total == 0 && has_budget && (falls_to_an_end || warmup < 0);
  if (made.by_clock && made.kind == "wsd" && cooldown > 0) {
    fail_with_hint("set steps too", Code::invalid_argument,
                   "cooldown_start {} counts updates, and with minutes or tokens only their number "
                   "is not known",
                   cooldown);
  }
  if (made.by_clock) made.total = LearningRate::kClockTicks;
  if (falls_to_an_end && made.total == 0) {
    fail_with_hint("set steps, minutes or tokens, or schedule = constant", Code::invalid_argument,
                   "schedule {} needs the number of steps", made.kind);
  }
  const double peak = options.f64("lr");
  if (options.f64("min_lr") > peak) {
    fail(Code::invalid_argument, "min_lr {} is above lr {}", options.f64("min_lr"), peak);
  }
  made.floor_share = peak > 0 ? options.f64("min_lr") / peak : 0.0;
  made.warmup =
      warmup >= 0
          ? warmup
          : static_cast<int64_t>(static_cast<double>(made.total) * options.f64("warmup_ratio"));
  if (made.by_clock && warmup >= 0) made.ramp = std::exchange(made.warmup, 0);
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
  if (!falls_to_an_end && made.total > 1 && made.warmup >= made.total) {
    log(LogLevel::warn, "warm-up takes {} steps of {}: the learning rate never reaches {}",
        made.warmup, made.total, peak);
  }
  const std::string& compat = options.str("compat");
  made.starts_at_zero = compat == "dllm-jax" || compat == "dllm" || compat == "nano";
  return made;
}

double token_share(const Options& options, int64_t tokens) {
  const int64_t budget = options.i64("tokens");
  if (budget <= 0) return 0;
  return tokens >= budget ? 1.0 : static_cast<double>(tokens) / static_cast<double>(budget);
}

double LearningRate::factor(int64_t updates, double clock) const {
  const auto ticks = static_cast<int64_t>(clock * static_cast<double>(total));
  if (!by_clock) return factor_at(std::max(updates, ticks));
  if (updates >= ramp) return factor_at(ticks);
  const double part = static_cast<double>(starts_at_zero ? updates : updates + 1);
  return std::min(part / static_cast<double>(ramp), factor_at(ticks));
}

double LearningRate::factor_at(int64_t updates) const {
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
