#include "noise/loss/likelihood.h"

#include "base/error.h"
#include "base/random.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dllm::noise {
namespace {

int32_t mask_of(const model::Model& model) {
  if (model.config().mask_token_id >= 0) return static_cast<int32_t>(model.config().mask_token_id);
  fail_with_hint("set the model option mask_token", Code::failed_precondition,
                 "the likelihood of an answer needs a mask token and the model has none");
}

} // namespace

std::vector<int64_t> spread_counts(int64_t first, int64_t tokens, int64_t samples) {
  std::vector<int64_t> counts;
  const double step = static_cast<double>(tokens) / static_cast<double>(samples);
  for (int64_t j = 0; j < samples; ++j) {
    // Ties are rounded to even, as in the reference.
    const double count = std::nearbyint(static_cast<double>(first) + step * static_cast<double>(j));
    counts.push_back((static_cast<int64_t>(count) - 1) % tokens + 1);
  }
  return counts;
}

LikelihoodGroup draw_group(const LikelihoodSettings& settings, int64_t row, int64_t group,
                           int64_t tokens) {
  const Key key = stream_key(settings.seed, Stream::mask, static_cast<uint64_t>(group),
                             static_cast<uint64_t>(row));
  uint64_t next = 0;
  const auto below = [&](int64_t bound) { // 0 to bound - 1
    const double uniform = uniform_from_bits(random_bits_at(key, next++));
    return std::min(static_cast<int64_t>(uniform * static_cast<double>(bound)), bound - 1);
  };
  LikelihoodGroup made;
  made.masked = spread_counts(1 + below(tokens), tokens, settings.group);
  for (int64_t j = 0; j < settings.group; ++j) {
    std::vector<int32_t> order(static_cast<size_t>(tokens));
    std::iota(order.begin(), order.end(), 0);
    for (int64_t i = tokens - 1; i > 0; --i)
      std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(below(i + 1))]);
    made.permutations.push_back(std::move(order));
  }
  return made;
}

LikelihoodRunner::LikelihoodRunner(std::shared_ptr<model::Model> model)
    : mask_(mask_of(*model)), losses_(model, make_objective("token_ce")) {}

double LikelihoodRunner::run_group(std::span<const int32_t> prompt, std::span<const int32_t> answer,
                                   const LikelihoodGroup& group, const Task* task) {
  const auto samples = static_cast<int64_t>(group.masked.size());
  const auto tokens = static_cast<int64_t>(answer.size());
  const int64_t seq = static_cast<int64_t>(prompt.size()) + tokens;
  if (answer.empty()) fail(Code::invalid_argument, "the answer is empty");
  if (samples == 0 || group.permutations.size() != group.masked.size()) {
    fail(Code::invalid_argument,
         "a group has {} counts and {} permutations, expected as many permutations as counts and "
         "at least 1",
         samples, group.permutations.size());
  }
  Tensor ids(DType::i32, {samples, seq}), targets(DType::i32, {samples, seq}),
      weights(DType::f32, {samples, seq});
  std::ranges::fill(targets.mutable_as<int32_t>(), -1);
  for (int64_t j = 0; j < samples; ++j) {
    const std::vector<int32_t>& order = group.permutations[static_cast<size_t>(j)];
    const int64_t masked = group.masked[static_cast<size_t>(j)];
    if (masked < 1 || masked > tokens || order.size() != answer.size()) {
      fail(Code::invalid_argument,
           "sample {} masks {} of {} tokens by a permutation of {}, expected 1 to {}", j, masked,
           tokens, order.size(), tokens);
    }
    const auto row = ids.mutable_as<int32_t>().subspan(static_cast<size_t>(j * seq));
    std::ranges::copy(prompt, row.begin());
    const float weight = static_cast<float>(tokens) / static_cast<float>(masked);
    for (size_t i = 0; i < answer.size(); ++i) {
      const bool hidden = order[i] < masked;
      row[prompt.size() + i] = hidden ? mask_ : answer[i];
      const size_t at = static_cast<size_t>(j * seq) + prompt.size() + i;
      if (hidden) targets.mutable_as<int32_t>()[at] = answer[i];
      if (hidden) weights.mutable_as<float>()[at] = weight;
    }
  }
  Batch batch;
  batch.set("ids", ids);
  batch.set("targets", targets);
  batch.set("weights", weights);
  return -losses_.run(batch, 0, 0, task).sum / static_cast<double>(samples);
}

AnswerLikelihood LikelihoodRunner::run(std::span<const int32_t> prompt,
                                       std::span<const int32_t> answer,
                                       const LikelihoodSettings& settings, int64_t row,
                                       const Task* task) {
  if (settings.samples < 1 || settings.group < 1) {
    fail(Code::invalid_argument, "{} samples in groups of {}, expected 1 or more", settings.samples,
         settings.group);
  }
  if (answer.empty()) fail(Code::invalid_argument, "the answer is empty");
  const auto tokens = static_cast<int64_t>(answer.size());
  const int64_t groups = (settings.samples + settings.group - 1) / settings.group;
  std::vector<double> values;
  for (int64_t g = 0; g < groups; ++g) {
    check_task(task);
    values.push_back(run_group(prompt, answer, draw_group(settings, row, g, tokens), task));
  }
  AnswerLikelihood made;
  made.tokens = tokens;
  made.samples = groups * settings.group;
  const auto count = static_cast<double>(groups);
  made.log_likelihood = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values)
    squares += (value - made.log_likelihood) * (value - made.log_likelihood);
  if (groups > 1) made.standard_error = std::sqrt(squares / (count - 1) / count);
  return made;
}

} // namespace dllm::noise
