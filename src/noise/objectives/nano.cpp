#include "base/error.h"
#include "noise/loss/token_ce.h"
#include "noise/objectives/table.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::noise {
namespace {

// nano-dlm's loss (jaisidhsingh/nano-dlm, src/training.py): a discrete time 1..T per row, the
// schedule's weight alpha / (1 - alpha), divided by the masked tokens of the batch.
class Nano final : public MaskingObjective {
public:
  Nano(ScheduleRef schedule, const Options& options)
      : MaskingObjective(std::move(schedule), options) {
    if (schedule_->steps() == 0) {
      fail_with_hint("use nano_cosine, nano_linear or nano_sqrt", Code::invalid_argument,
                     "objective nano needs a schedule with discrete times, {} has none",
                     schedule_->name());
    }
  }
  const std::string& name() const override { return name_; }
  bool keyed_by_batch() const override { return compat(); }
  Batch prepare_rows(const Batch& batch, uint64_t seed, int64_t step,
                     const PrepareContext& context) const override;
  Json describe() const override;

private:
  bool compat() const { return options_.str("compat") == "nano"; }
  struct Draws {
    std::vector<int32_t> time; // 1..T
    std::vector<float> keep;   // uniform: a token is kept if its number is less than alpha
  };
  Draws own_draws(const TokenRows& rows, int64_t first_row, uint64_t seed, int64_t step) const;
  Draws reference_draws(const TokenRows& rows, uint64_t seed, int64_t step,
                        const PrepareContext& context) const;
  void inject_times(const Tensor& given, Draws* draws) const;

  std::string name_ = "nano";
};

Nano::Draws Nano::own_draws(const TokenRows& rows, int64_t first_row, uint64_t seed,
                            int64_t step) const {
  Draws draws;
  for (int64_t b = 0; b < rows.batch; ++b) {
    const auto row = static_cast<uint64_t>(first_row + b);
    int32_t time = 0;
    random_int(stream_key(seed, Stream::time, static_cast<uint64_t>(step), row), {&time, 1}, 1,
               static_cast<int32_t>(schedule_->steps()) + 1);
    draws.time.push_back(time);
    const Key key = stream_key(seed, Stream::mask, static_cast<uint64_t>(step), row);
    for (int64_t i = 0; i < rows.seq; ++i) {
      draws.keep.push_back(uniform_from_bits(random_bits_at(key, static_cast<uint64_t>(i))));
    }
  }
  return draws;
}

// compat = nano: per batch a running key is split into three: the next key, times, masks.
Nano::Draws Nano::reference_draws(const TokenRows& rows, uint64_t seed, int64_t step,
                                  const PrepareContext& context) const {
  Key running = context.batch_key ? *context.batch_key : make_key(seed);
  for (int64_t i = 0; i < step && !context.batch_key; ++i) running = split(running, 3)[0];
  const std::vector<Key> keys = split(running, 3);
  Draws draws{std::vector<int32_t>(static_cast<size_t>(rows.batch)),
              std::vector<float>(static_cast<size_t>(rows.batch * rows.seq))};
  random_int(keys[1], draws.time, 1, static_cast<int32_t>(schedule_->steps()) + 1);
  random_uniform(keys[2], draws.keep);
  return draws;
}

// Times 1..T of the batch itself replace the drawn ones.
void Nano::inject_times(const Tensor& given, Draws* draws) const {
  const Tensor times = given.to(DType::i32);
  if (times.count() != static_cast<int64_t>(draws->time.size())) {
    fail(Code::invalid_argument, "array timesteps has {} times, expected {}", times.count(),
         draws->time.size());
  }
  for (size_t b = 0; b < draws->time.size(); ++b) {
    const int32_t time = times.as<int32_t>()[b];
    if (time < 0 || time > schedule_->steps()) {
      fail(Code::invalid_argument, "timesteps[{}] = {} is not in 0 to {}", b, time,
           schedule_->steps());
    }
    draws->time[b] = time;
  }
}

Batch Nano::prepare_rows(const Batch& batch, uint64_t seed, int64_t step,
                         const PrepareContext& context) const {
  const int32_t mask = mask_id(context);
  const TokenRows rows = token_rows(batch, context.vocab, context.shift == 1 && !compat());
  Draws draws = compat() ? reference_draws(rows, seed, step, context)
                         : own_draws(rows, batch.global_rows(rows.batch).first, seed, step);
  inject_draws(batch, "u_mask", draws.keep);
  if (const Tensor* given = batch.find("timesteps")) inject_times(*given, &draws);
  TokenCeArrays made(rows.batch, rows.seq, rows.ids);
  const auto ids = made.ids.mutable_as<int32_t>();
  const auto targets = made.targets.mutable_as<int32_t>();
  const auto weights = made.weights.mutable_as<float>();
  Tensor timesteps(DType::f32, {rows.batch});
  for (int64_t b = 0; b < rows.batch; ++b) {
    const auto row = static_cast<size_t>(b);
    const double t = static_cast<double>(draws.time[row]) / static_cast<double>(schedule_->steps());
    int64_t masked = 0;
    for (int64_t i = 0; i < rows.seq; ++i) {
      const auto at = static_cast<size_t>(b * rows.seq + i);
      const bool hit = rows.trainable(static_cast<int64_t>(at)) &&
                       !(draws.keep[at] < static_cast<float>(schedule_->alpha(t)));
      if (hit) ids[at] = mask;
      // The reference reads the noised ids, so a mask token of the text counts too.
      if (!hit && !(compat() && ids[at] == mask)) continue;
      targets[at] = rows.ids[at];
      weights[at] = static_cast<float>(schedule_->weight(t));
      ++masked;
    }
    made.t.mutable_as<float>()[row] = static_cast<float>(t);
    timesteps.mutable_as<float>()[row] = static_cast<float>(draws.time[row]);
    made.normalizer.mutable_as<float>()[row] = static_cast<float>(masked);
  }
  Batch prepared = made.added_to(batch);
  prepared.set("timesteps", timesteps);
  return prepared;
}

Json Nano::describe() const {
  Json made = Objective::describe();
  if (compat()) {
    made["quirks"].push_back(
        "times and masks of the local batch come from one running key (nano-dlm, src/training.py)");
    made["quirks"].push_back("mask tokens of the text count as masked (nano-dlm, src/training.py)");
  }
  return made;
}

} // namespace

ObjectiveEntry objective_files::nano() {
  return {"nano", "nano_cosine", shared_objective_options(), new_objective<Nano>};
}

} // namespace dllm::noise
