#include "train/learning_rate.h"

#include "base/error.h"
#include "base/log.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dllm::train {
namespace {

// The number of updates that a budget is taken to have before its first update.
constexpr int64_t kUnknownUpdates = 1000;

// Fails for a warm-up that leaves no step for a schedule that falls to an end.
void check_warmup(const LearningRate& rate, bool falls_to_an_end, int64_t warmup, double peak) {
  if (rate.total <= 1 || warmup < rate.total) return;
  if (falls_to_an_end) {
    fail_with_hint("set warmup below steps", Code::invalid_argument,
                   "warmup {} leaves nothing of {} steps, expected a smaller number", warmup,
                   rate.total);
  }
  log(LogLevel::warn, "warm-up takes {} steps of {}: the learning rate never reaches {}", warmup,
      rate.total, peak);
}

} // namespace

LearningRate learning_rate_of(const Options& options) {
  LearningRate made;
  made.kind = options.str("schedule");
  made.total = options.i64("steps");
  made.warmup = options.i64("warmup");
  made.warmup_ratio = options.f64("warmup_ratio");
  made.cooldown_start = options.i64("cooldown_start");
  const bool falls_to_an_end = made.kind != "constant" && made.kind != "inverse_sqrt";
  made.has_budget = options.f64("minutes") > 0 || options.i64("tokens") > 0;
  if (made.total == 0 && made.has_budget && made.kind == "wsd" && made.cooldown_start > 0) {
    fail_with_hint("set steps too", Code::invalid_argument,
                   "cooldown_start {} counts updates, and with minutes or tokens only their number "
                   "is not known",
                   made.cooldown_start);
  }
  if (falls_to_an_end && made.total == 0 && !made.has_budget) {
    fail_with_hint("set steps, minutes or tokens, or schedule = constant", Code::invalid_argument,
                   "schedule {} needs the number of steps", made.kind);
  }
  const double peak = options.f64("lr");
  if (options.f64("min_lr") > peak) {
    fail(Code::invalid_argument, "min_lr {} is above lr {}", options.f64("min_lr"), peak);
  }
  made.floor_share = peak > 0 ? options.f64("min_lr") / peak : 0.0;
  const int64_t warmup = made.warmup_of(made.expected_updates(0, 0, 0));
  if (made.kind == "inverse_sqrt" && warmup < 1) {
    fail_with_hint(
        "set warmup = 1000, or warmup_ratio and steps", Code::invalid_argument,
        "schedule inverse_sqrt falls from the end of warm-up on, and the run has no warm-up");
  }
  check_warmup(made, falls_to_an_end, warmup, peak);
  const std::string& compat = options.str("compat");
  made.starts_at_zero = compat == "dllm-jax" || compat == "dllm" || compat == "nano";
  return made;
}

double token_share(const Options& options, int64_t tokens) {
  const int64_t budget = options.i64("tokens");
  if (budget <= 0) return 0;
  return tokens >= budget ? 1.0 : static_cast<double>(tokens) / static_cast<double>(budget);
}

int64_t LearningRate::warmup_of(int64_t updates) const {
  if (warmup >= 0) return warmup;
  return static_cast<int64_t>(static_cast<double>(updates) * warmup_ratio);
}

// The share that the updates so far have used gives the number that fits into the budget.
int64_t LearningRate::expected_updates(int64_t updates, double clock, double first_share) const {
  double fit = 0;
  if (updates > 0 && clock > 0) fit = static_cast<double>(updates) / clock;
  if (updates == 0 && first_share > 0) fit = 1.0 / first_share;
  if (fit == 0) return total == 0 && has_budget ? kUnknownUpdates : total;
  // Rounding errors make no update of their own.
  const auto whole = static_cast<int64_t>(std::ceil(std::min(fit, 1e12) * (1.0 - 1e-9)));
  return total > 0 ? std::min(total, whole) : whole;
}

double LearningRate::factor(int64_t updates, double clock, double first_share) const {
  const int64_t all = expected_updates(updates, clock, first_share);
  const int64_t warm = warmup_of(all);
  if (updates >= warm) return after_warmup(updates, warm, all);
  const double part =
      static_cast<double>(starts_at_zero ? updates : updates + 1) / static_cast<double>(warm);
  // A budget may end before the warm-up does, and the rate falls to its end all the same.
  return all > 0 && warm >= all ? std::min(part, after_warmup(updates, 0, all)) : part;
}

// begin: the updates of the warm-up; all: those of the run.
double LearningRate::after_warmup(int64_t updates, int64_t begin, int64_t all) const {
  if (kind == "constant") return 1.0;
  if (kind == "inverse_sqrt") { // Vaswani et al. 2017, section 5.3
    const double share = static_cast<double>(std::max<int64_t>(begin, 1)) /
                         static_cast<double>(updates + (starts_at_zero ? 0 : 1));
    return std::max(std::sqrt(std::min(share, 1.0)), floor_share);
  }
  if (kind == "wsd") begin = std::max(cooldown_start > 0 ? cooldown_start : all - all / 5, begin);
  if (updates < begin) return 1.0;
  const auto length = static_cast<double>(std::max<int64_t>(all - begin, 1));
  const double part = std::min(static_cast<double>(updates - begin) / length, 1.0);
  const double left =
      kind == "cosine" ? 0.5 * (1.0 + std::cos(std::numbers::pi * part)) : 1.0 - part;
  return floor_share + (1.0 - floor_share) * left;
}

} // namespace dllm::train
