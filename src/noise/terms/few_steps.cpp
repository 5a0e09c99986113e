#include "noise/terms/few_steps.h"

#include "base/error.h"
#include "base/random.h"
#include "base/word_list.h"
#include "graph/ops.h"
#include "noise/objective.h"
#include "noise/rows/head_rows.h"

#include <algorithm>
#include <array>

namespace dllm::noise {
namespace {

using graph::Value;

// Arrays of prepared rows, (batch, seq). The step is i32, 0 to steps - 1, and `steps` for a token
// that no step reveals. The draw is uniform, f32.
constexpr const char* kRevealSteps = "distill_steps";
constexpr const char* kTokenDraws = "distill_draws";
// Of the feed: the same two of each head row, (capacity), and the head row that predicts a
// position, i32(batch, seq).
constexpr const char* kHeadSteps = "distill_head_steps";
constexpr const char* kHeadDraws = "distill_head_draws";
constexpr const char* kHeadRowAt = "distill_head_row_at";

// Returns array `name` of prepared rows with the shape of the targets.
Tensor row_array(const Batch& prepared, const char* name, DType dtype) {
  const Tensor* found = prepared.find(name);
  if (found == nullptr)
    fail(Code::not_found, "distill_steps needs array {}, and the batch lacks it", name);
  const Shape& wanted = prepared.at("targets").shape();
  if (found->shape() != wanted) {
    fail(Code::invalid_argument, "array {} has shape {}, expected {}", name, found->shape().text(),
         wanted.text());
  }
  return found->to(dtype);
}

// Returns the objectives whose rows have masks, for a hint.
std::string masking_objectives() {
  return "use " + word_list(objectives_of(std::array{RowKind::masked}), "or");
}

// Returns the times of the rows.
Tensor row_times(const Batch& prepared, int64_t batch) {
  const Tensor* found = prepared.find("t");
  if (found == nullptr || found->shape() != Shape{batch}) {
    fail_with_hint(masking_objectives() + ", or add array t to the batch", Code::invalid_argument,
                   "distill_steps needs array t with the time of each of the {} rows", batch);
  }
  check_finite("t", *found);
  return found->to(DType::f32);
}

} // namespace

FewSteps::FewSteps(const Options& options)
    : steps_(options.i64("distill_steps")), of_(options.i64("distill_of")),
      rest_(options.boolean("distill_rest")), mask_id_(options.i64("mask_id")) {
  if (!is_on()) {
    for (const char* name : {"distill_of", "distill_rest"}) {
      if (!options.is_set(name)) continue;
      fail_with_hint("set distill_steps to 2 or more", Code::invalid_argument,
                     "option {} is set and changes nothing: distill_steps is 1", name);
    }
    return;
  }
  if (steps_ > of_) {
    fail_with_hint("set distill_of to the steps in which the teacher decodes a row",
                   Code::invalid_argument, "distill_steps {} is above distill_of {}", steps_, of_);
  }
  if (options.str("teacher") == "rows") {
    fail_with_hint("use teacher model, or teacher base with an adapter", Code::invalid_argument,
                   "distill_steps {} runs the teacher, and teacher rows has numbers alone", steps_);
  }
  if (options.str("teacher_input") == "clean") {
    fail_with_hint("leave teacher_input out", Code::invalid_argument,
                   "distill_steps {} needs a teacher that sees the masks, and teacher_input is "
                   "clean",
                   steps_);
  }
}

void FewSteps::check(const TermUse& use) {
  if (use.options.i64("distill_steps") == 1 || use.rows == RowKind::masked ||
      use.rows == RowKind::given)
    return;
  fail_with_hint(masking_objectives(), Code::invalid_argument,
                 "distill_steps needs masks that the teacher reveals in steps, and objective {} "
                 "has none",
                 use.objective);
}

bool FewSteps::is_prepared(const Batch& prepared) const {
  return !is_on() || prepared.has(kRevealSteps);
}

void FewSteps::prepare(Batch& prepared, const TermContext& context, const TermDraws& draws) const {
  const Tensor targets = prepared.at("targets").to(DType::i32);
  const int64_t batch = targets.shape()[0], seq = targets.shape()[1];
  const Tensor times = row_times(prepared, batch);
  Tensor reveals(DType::i32, targets.shape()), tokens(DType::f32, targets.shape());
  const auto all_reveals = reveals.mutable_as<int32_t>();
  const auto all_tokens = tokens.mutable_as<float>();
  for (int64_t b = 0; b < batch; ++b) {
    const Key key = stream_key(draws.seed, Stream::rollout, static_cast<uint64_t>(draws.step),
                               static_cast<uint64_t>(draws.first_row + b));
    const Key of_steps = fold_in(key, 0), of_tokens = fold_in(key, 1);
    const double t = times.as<float>()[static_cast<size_t>(b)];
    std::vector<double> still_masked; // after each step
    for (int64_t step = 1; step <= steps_; ++step) {
      const double s = t - static_cast<double>(step) / static_cast<double>(of_);
      still_masked.push_back(s > 0 ? context.schedule->reverse_mask_prob(s, t) : 0.0);
    }
    for (int64_t i = 0; i < seq; ++i) {
      const auto at = static_cast<size_t>(b * seq + i);
      const auto index = static_cast<uint64_t>(i);
      const double chance = uniform_from_bits(random_bits_at(of_steps, index));
      const auto before = [&](double still) { return chance < still; };
      const auto step = std::ranges::find_if_not(still_masked, before) - still_masked.begin();
      all_reveals[at] = static_cast<int32_t>(targets.as<int32_t>()[at] < 0 ? steps_ : step);
      all_tokens[at] = uniform_from_bits(random_bits_at(of_tokens, index));
    }
  }
  prepared.set(kRevealSteps, reveals);
  prepared.set(kTokenDraws, tokens);
}

void FewSteps::feed(const Batch& prepared, std::span<const int32_t> positions, size_t count,
                    Batch& feed) const {
  const Tensor reveals = row_array(prepared, kRevealSteps, DType::i32),
               draws = row_array(prepared, kTokenDraws, DType::f32);
  check_between(kRevealSteps, reveals, 0, steps_, "distill_steps");
  check_finite(kTokenDraws, draws);
  const Shape capacity{static_cast<int64_t>(positions.size())};
  Tensor head_steps(DType::i32, capacity), head_draws(DType::f32, capacity),
      row_at(DType::i32, reveals.shape()), steps(DType::i32, reveals.shape());
  std::ranges::fill(steps.mutable_as<int32_t>(), static_cast<int32_t>(steps_));
  for (size_t k = 0; k < count; ++k) {
    const auto at = static_cast<size_t>(positions[k]);
    head_steps.mutable_as<int32_t>()[k] = reveals.as<int32_t>()[at];
    steps.mutable_as<int32_t>()[at] = reveals.as<int32_t>()[at];
    head_draws.mutable_as<float>()[k] = std::clamp(draws.as<float>()[at], 0.0f, 1.0f - 1e-7f);
    row_at.mutable_as<int32_t>()[at] = static_cast<int32_t>(k);
  }
  feed.set(kRevealSteps, steps);
  feed.set(kHeadSteps, head_steps);
  feed.set(kHeadDraws, head_draws);
  feed.set(kHeadRowAt, row_at);
}

// Returns a token of each row, i32(capacity): the first one at which the running sum of the
// probabilities exceeds the row's draw. The mask token is never drawn.
Value FewSteps::drawn(const TermInputs& inputs, Value states) const {
  model::Builder& teacher = inputs.teacher.network(inputs.builder);
  const int64_t mask = mask_id_ >= 0 ? mask_id_ : inputs.builder.config().mask_token_id;
  const HeadOfRows heads[] = {
      {model::whole(teacher.head(), states), states, static_cast<int32_t>(mask)}};
  const Value arrays[] = {inputs.arrays.at(kHeadDraws)};
  const auto body = [](std::span<const Value> logits, std::span<const Value> rows) {
    const Value z = logits[0];
    const int64_t part = z.dim(0), vocab = z.dim(1);
    const Value sums = graph::cumsum(graph::exp(graph::subtract(z, graph::max(z, {1}, true))), 1);
    const Value total = graph::slice_axis(sums, 1, vocab - 1, vocab);
    const Value wanted = graph::multiply(graph::reshape(rows[0], {part, 1}), total);
    const Value passed = graph::convert(graph::less_equal(sums, wanted), DType::f32);
    return std::vector{graph::sum(passed, {1})};
  };
  const Value places = graph::stop_gradient(over_head_rows("draw", heads, arrays, body)[0]);
  const auto last = static_cast<float>(teacher.config().vocab_size - 1);
  return graph::convert(graph::minimum(places, graph::scalar(*places.graph, last)), DType::i32);
}

FewSteps::Targets FewSteps::build(const TermInputs& inputs, Value rows, Value is_predicted) const {
  const auto& arrays = inputs.arrays;
  graph::Graph& graph = inputs.builder.graph();
  if (inputs.teacher.attention(inputs.builder) == model::AttentionKind::causal) {
    fail_with_hint("set teacher_attention bidirectional", Code::invalid_argument,
                   "distill_steps {} needs a teacher that sees both sides of a mask, and its "
                   "attention is causal",
                   steps_);
  }
  const Value head_steps = arrays.at(kHeadSteps);
  const Shape column{head_steps.dim(0), 1};
  Value ids = arrays.at("ids"), states;
  for (int64_t step = 0; step < steps_; ++step) {
    const Value number = graph::scalar_i32(graph, static_cast<int32_t>(step));
    const model::ForwardOutputs pass =
        step == 0 ? inputs.teacher.forward(inputs.builder, arrays, TeacherInput::noised, {})
                  : inputs.teacher.forward_over(inputs.builder, arrays, ids);
    const Value hidden = pass.hidden;
    const Value flat = graph::stop_gradient(
        graph::reshape(hidden, {hidden.dim(0) * hidden.dim(1), hidden.dim(2)}));
    const Value own = graph::take(flat, rows);
    // A token that is still masked is compared with the last step that it went through.
    const Value is_open = graph::reshape(graph::greater_equal(head_steps, number), column);
    states = step == 0 ? own : graph::select(is_open, own, states);
    if (step + 1 == steps_) break;
    const Value row_at = arrays.at(kHeadRowAt);
    const Value is_revealed = graph::logical_and(graph::equal(arrays.at(kRevealSteps), number),
                                                 graph::take(is_predicted, row_at));
    ids = graph::select(is_revealed, graph::take(drawn(inputs, own), row_at), ids);
  }
  const Value end = graph::scalar_i32(graph, static_cast<int32_t>(rest_ ? steps_ + 1 : steps_));
  return {states, graph::convert(graph::less(head_steps, end), DType::f32)};
}

std::vector<OptionSpec> FewSteps::option_rows() {
  std::vector<OptionSpec> rows;
  rows.push_back(option_i64("distill_steps", 1, 1, 64,
                            "Steps of the teacher that the student matches in one; 1: the "
                            "teacher predicts the same tokens as the student."));
  rows.push_back(option_i64("distill_of", 64, 1, 1 << 20,
                            "Steps in which the teacher of distill_steps decodes a whole row."));
  rows.push_back(option_bool("distill_rest", false,
                             "distill_steps also compares the tokens that no step reveals, with "
                             "the last step."));
  return rows;
}

} // namespace dllm::noise
