// The consistency of a mask filler: vectors of neighbouring masks should not point the same way,
// which the reference sees before texts that repeat themselves (Open-dLLM's fork castlehill).
//   sum += weight * sum_rows normalizer(row) * mean of max(0, cos(x_i, x_{i + 1}))
// The mean covers the pairs of neighbouring positions that the filler changed.

#include "base/error.h"
#include "graph/ops.h"
#include "noise/loss/token_ce.h"
#include "noise/terms/table.h"

#include <nlohmann/json.hpp>

namespace dllm::noise {
namespace {

using graph::Value;

class Consistency final : public LossTerm {
public:
  explicit Consistency(const Options&) {}
  void feed(const Batch&, const TermContext&, Batch&) const override {}
  Value build(const TermInputs& inputs) const override;
};

Value Consistency::build(const TermInputs& inputs) const {
  const model::FilledMasks& filled = inputs.builder.filled();
  if (!filled.at.defined()) {
    fail_with_hint("set filler", Code::invalid_argument,
                   "consistency compares the vectors of a mask filler, and the model has none");
  }
  graph::Graph& graph = inputs.builder.graph();
  const int64_t seq = filled.at.dim(1);
  const auto dot = [](Value x, Value y) { return graph::sum(graph::multiply(x, y), {2}); };
  const Value zero = graph::scalar(graph, 0.0f), one = graph::scalar(graph, 1.0f),
              least = graph::scalar(graph, 1e-12f);
  const Value left = graph::slice_axis(filled.vectors, 1, 0, seq - 1),
              right = graph::slice_axis(filled.vectors, 1, 1, seq);
  const Value lengths =
      graph::multiply(graph::add(dot(left, left), least), graph::add(dot(right, right), least));
  const Value cosines = graph::multiply(dot(left, right), graph::rsqrt(lengths)); // (batch, pairs)
  const Value pairs = graph::stop_gradient(graph::multiply(
      graph::slice_axis(filled.at, 1, 0, seq - 1), graph::slice_axis(filled.at, 1, 1, seq)));
  const Value sums = graph::sum(graph::multiply(graph::maximum(cosines, zero), pairs), {1});
  const Value means = graph::divide(sums, graph::maximum(graph::sum(pairs, {1}), one));
  return graph::sum(graph::multiply(means, inputs.arrays.at(kNormalizer)), {0});
}

} // namespace

TermEntry term_files::consistency() {
  return {.options = {option_f64("consistency", 0.0, 0.0, 1e6,
                                 "Weight of the cosines between vectors of neighbouring masks that "
                                 "a mask filler gives; 0: none.")},
          .make = new_term<Consistency>};
}

} // namespace dllm::noise
