#include "train/step/started_steps.h"

#include <algorithm>

namespace dllm::train {

using Clock = std::chrono::steady_clock;

StartedStep StartedSteps::begin(ProgramKind kind, const Counters& counters, double lr) const {
  StartedStep step;
  step.kind = kind;
  step.before = step.after = counters;
  step.lr = static_cast<double>(static_cast<float>(lr)); // rounded as in the program
  step.start = Clock::now();
  step.share = 1.0 / static_cast<double>(1 + steps_.size());
  return step;
}

FinishedStep StartedSteps::read_oldest(bool mean_of_means) {
  StepNumbers numbers = steps_.front().program->read(*steps_.front().numbers);
  FinishedStep done{std::move(steps_.front()), std::move(numbers)};
  steps_.pop_front();
  const StartedStep& step = done.started;
  done.loss = done.numbers.mean();
  done.seconds = std::chrono::duration<double>(Clock::now() - step.start).count() * step.share;
  done.flops = step.flops;
  done.parts = done.numbers.parts;
  done.observed = done.numbers.observed;
  if (step.kind == ProgramKind::apply) {
    const Accumulated& sums = step.sums;
    done.loss = sums.mean(mean_of_means);
    done.seconds += sums.seconds;
    done.flops = sums.flops;
    done.parts = sums.parts;
    done.observed = sums.observed;
  }
  return done;
}

bool StartedSteps::changes_weights() const {
  return std::ranges::any_of(
      steps_, [](const StartedStep& step) { return step.kind != ProgramKind::accumulate; });
}

} // namespace dllm::train
