// Distillation: the student's distribution of each token that the loss counts comes near the
// teacher's. Each token has the weight that the objective's loss gives it.
//   sum += weight * sum_r weights[r] * D(student(r), teacher(r))
// With distill_steps the teacher's distributions come from several of its steps.

#include "base/error.h"
#include "graph/ops.h"
#include "noise/loss/token_ce.h"
#include "noise/terms/divergence.h"
#include "noise/terms/few_steps.h"
#include "noise/terms/table.h"
#include "text/data/anchor_cache.h"

#include <algorithm>

namespace dllm::noise {
namespace {

using text::kTopIds;    // i32(batch, seq, k)
using text::kTopLogits; // f32(batch, seq, k)
// Of the feed, f32(capacity): 1 where the cached teacher predicts the token of a head row, else 0.
constexpr const char* kIsPredicted = "distill_is_predicted";
// Of the feed: the position that each head row predicts, i32(capacity), in the whole batch; and the
// positions of a row, i32().
constexpr const char* kPredicted = "distill_positions";
constexpr const char* kLength = "distill_length";

DivergenceKind kind_of(const std::string& name) {
  if (name == "reverse") return DivergenceKind::reverse;
  return name == "js" ? DivergenceKind::jensen_shannon : DivergenceKind::forward;
}

class Distill final : public LossTerm {
public:
  explicit Distill(const Options& options)
      : cached_(options.str("teacher") == "rows"),
        few_steps_(options), divergence_{kind_of(options.str("distill_kind")),
                                         options.f64("distill_temperature")} {}
  void prepare(Batch& prepared, const TermContext& context, const TermDraws& draws) const override {
    if (few_steps_.is_on()) few_steps_.prepare(prepared, context, draws);
  }
  bool is_prepared(const Batch& prepared) const override {
    return few_steps_.is_prepared(prepared);
  }
  void feed(const Batch& prepared, const TermContext& context, Batch& feed) const override;
  graph::Value build(const TermInputs& inputs) const override;

private:
  graph::Value live(const TermInputs& inputs, graph::Value student, graph::Value* weights) const;

  bool cached_;
  FewSteps few_steps_;
  Divergence divergence_;
};

// Returns rows `positions` of an array (batch, seq, k), widened to type T.
template <class T>
Tensor rows_of(const Batch& prepared, const char* name, std::span<const int32_t> positions) {
  const Tensor* found = prepared.find(name);
  const Shape& seq = prepared.at("targets").shape();
  if (found == nullptr)
    fail(Code::not_found, "teacher rows needs array {}, and the batch lacks it", name);
  if (found->shape().rank() != 3 || found->shape()[0] != seq[0] || found->shape()[1] != seq[1]) {
    fail(Code::invalid_argument, "array {} has shape {}, expected ({}, {}, k)", name,
         found->shape().text(), seq[0], seq[1]);
  }
  check_finite(name, *found);
  const DType dtype = std::is_same_v<T, float> ? DType::f32 : DType::i32;
  const Tensor numbers = found->to(dtype);
  const auto k = static_cast<size_t>(found->shape()[2]);
  Tensor made(dtype, {static_cast<int64_t>(positions.size()), found->shape()[2]});
  for (size_t i = 0; i < positions.size(); ++i) {
    std::ranges::copy(numbers.as<T>().subspan(static_cast<size_t>(positions[i]) * k, k),
                      made.mutable_as<T>().subspan(i * k).begin());
  }
  return made;
}

// Moves the rows of ids without a prediction (-1) out of the term. Returns 1 for each other row.
Tensor take_unpredicted(Tensor& ids) {
  const int64_t k = ids.shape()[1];
  Tensor made(DType::f32, {ids.shape()[0]});
  for (int64_t row = 0; row < ids.shape()[0]; ++row) {
    const auto own =
        ids.mutable_as<int32_t>().subspan(static_cast<size_t>(row * k), static_cast<size_t>(k));
    const bool is_predicted = own.empty() || own[0] >= 0;
    made.mutable_as<float>()[static_cast<size_t>(row)] = is_predicted ? 1.0f : 0.0f;
    if (!is_predicted) std::ranges::fill(own, 0);
  }
  return made;
}

void Distill::feed(const Batch& prepared, const TermContext& context, Batch& feed) const {
  Tensor positions = feed.at(kHeadRows).clone();
  const auto count = static_cast<size_t>(feed.at(kHeadCount).as<int32_t>()[0]);
  for (int32_t& position : positions.mutable_as<int32_t>().first(count)) position += context.shift;
  if (cached_) {
    Tensor ids = rows_of<int32_t>(prepared, kTopIds, positions.as<int32_t>());
    feed.set(kIsPredicted, take_unpredicted(ids));
    feed.set(kTopIds, std::move(ids));
    check_between(kTopIds, feed.at(kTopIds), 0, context.vocab - 1, "the vocabulary");
    feed.set(kTopLogits, rows_of<float>(prepared, kTopLogits, positions.as<int32_t>()));
    if (feed.at(kTopIds).shape()[1] != feed.at(kTopLogits).shape()[1]) {
      fail(Code::invalid_argument, "arrays {} and {} have unlike numbers of tokens", kTopIds,
           kTopLogits);
    }
    return;
  }
  if (few_steps_.is_on()) few_steps_.feed(prepared, positions.as<int32_t>(), count, feed);
  feed.set(kPredicted, positions);
  feed.set(kLength, Tensor::scalar(static_cast<int32_t>(prepared.at("targets").shape()[1])));
}

// Returns the divergences of the head rows. A teacher with shift 1 does not predict the first token
// of a row, so the weight of such a row becomes 0.
graph::Value Distill::live(const TermInputs& inputs, graph::Value student,
                           graph::Value* weights) const {
  const auto& arrays = inputs.arrays;
  model::Builder& teacher = inputs.teacher.network(inputs.builder);
  // A model that was made of its teacher may have tokens of its own, such as a mask token.
  constexpr int64_t kMostAdded = 256;
  const int64_t added = inputs.builder.config().vocab_size - teacher.config().vocab_size;
  if (added < 0 || added > kMostAdded) {
    fail_with_hint("choose a teacher with the tokenizer of the model", Code::invalid_argument,
                   "the teacher has {} tokens and the model has {}: distill compares the same "
                   "tokens",
                   teacher.config().vocab_size, inputs.builder.config().vocab_size);
  }
  if (inputs.teacher.input(inputs.builder) == TeacherInput::clean &&
      inputs.teacher.attention(inputs.builder) != model::AttentionKind::causal) {
    fail_with_hint("use teacher_input noised, or teacher_attention causal", Code::invalid_argument,
                   "a teacher that sees the clean text on both sides sees the tokens that it "
                   "predicts");
  }
  const graph::Value shift =
      graph::scalar_i32(inputs.builder.graph(), inputs.teacher.shift(inputs.builder));
  const graph::Value positions = arrays.at(kPredicted);
  const graph::Value within = graph::remainder(positions, arrays.at(kLength));
  const graph::Value is_predicted = graph::greater_equal(within, shift);
  *weights = graph::multiply(*weights, graph::convert(is_predicted, DType::f32));
  const graph::Value rows = graph::subtract(positions, shift);
  graph::Value states;
  if (few_steps_.is_on()) {
    const FewSteps::Targets targets = few_steps_.build(inputs, rows, is_predicted);
    *weights = graph::multiply(*weights, targets.counts);
    states = targets.states;
  } else {
    const graph::Value hidden =
        inputs.teacher.forward(inputs.builder, arrays, inputs.teacher.input(inputs.builder), {})
            .hidden;
    states =
        graph::take(graph::reshape(hidden, {hidden.dim(0) * hidden.dim(1), hidden.dim(2)}), rows);
  }
  return divergences(divergence_, inputs.builder.head(), student, teacher.head(), states);
}

graph::Value Distill::build(const TermInputs& inputs) const {
  const auto& arrays = inputs.arrays;
  const graph::Value hidden = inputs.student.hidden;
  const graph::Value flat = graph::reshape(hidden, {hidden.dim(0) * hidden.dim(1), hidden.dim(2)});
  const graph::Value student = graph::take(flat, arrays.at(kHeadRows));
  graph::Value weights = arrays.at(kHeadWeights);
  if (cached_) weights = graph::multiply(weights, arrays.at(kIsPredicted));
  const graph::Value apart = cached_ ? top_divergences(divergence_, inputs.builder.head(), student,
                                                       arrays.at(kTopIds), arrays.at(kTopLogits))
                                     : live(inputs, student, &weights);
  return graph::sum(graph::multiply(apart, weights), {0});
}

void check_distill(const TermUse& use) {
  if (use.rows == RowKind::clean && use.options.str("teacher") == "model" &&
      use.options.str("teacher_attention") != "causal") {
    fail_with_hint("set teacher_attention = causal", Code::invalid_argument,
                   "objective {} hides no token: a teacher that is not causal would see the tokens "
                   "that it predicts",
                   use.objective);
  }
  FewSteps::check(use);
}

} // namespace

TermEntry term_files::distill() {
  std::vector<OptionSpec> rows;
  rows.push_back(option_f64("distill", 0.0, 0.0, 1e6,
                            "Weight of the divergence from the teacher's distributions of the "
                            "tokens that the loss counts; 0: none."));
  rows.push_back(option_choice(
      "distill_kind", "forward", {"forward", "reverse", "js"},
      "Divergence of distill. forward: KL(teacher | student); reverse: KL(student | teacher); js: "
      "Jensen-Shannon."));
  rows.push_back(option_f64("distill_temperature", 1.0, 1e-3, 1e3,
                            "Divides the logits of student and teacher; the term is multiplied by "
                            "its square."));
  for (OptionSpec& row : FewSteps::option_rows()) rows.push_back(std::move(row));
  return {.options = std::move(rows),
          .make = new_term<Distill>,
          .teacher = TeacherUse::predictions,
          .check = check_distill};
}

} // namespace dllm::noise
