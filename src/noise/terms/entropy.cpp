// The entropy of right predictions: a model that decodes many tokens at once has to be certain
// where it is right (d3LLM, as Open-dLLM's fork castlehill trains it).
//   sum += weight * sum_rows normalizer(row) * mean of H(softmax(logits / T))
// The mean covers the states of a row whose likeliest token is the target.

#include "graph/ops.h"
#include "noise/loss/token_ce.h"
#include "noise/rows/head_rows.h"
#include "noise/terms/table.h"

namespace dllm::noise {
namespace {

using graph::Value;

constexpr const char* kEntropyOwners = "entropy_owners"; // i32(capacity): the row of the batch

class Entropy final : public LossTerm {
public:
  explicit Entropy(const Options& options) : temperature_(options.f64("entropy_temperature")) {}

  void feed(const Batch& prepared, const TermContext&, Batch& feed) const override {
    const auto seq = static_cast<int32_t>(prepared.at("targets").shape()[1]);
    Tensor owners = feed.at(kHeadRows).clone();
    for (int32_t& row : owners.mutable_as<int32_t>()) row /= seq;
    feed.set(kEntropyOwners, owners);
  }
  Value build(const TermInputs& inputs) const override;

private:
  double temperature_;
};

// Returns the entropy of each row in nats where its likeliest token is the target, else 0; and 1
// or 0.
std::vector<Value> right_entropies(const model::Head& head, Value hidden, Value targets,
                                   double temperature) {
  const HeadOfRows heads[] = {{model::whole(head, hidden), hidden}};
  const Value arrays[] = {targets};
  const auto body = [&](std::span<const Value> logits, std::span<const Value> rows) {
    const Value cold = graph::multiply(
        logits[0], graph::scalar(*logits[0].graph, static_cast<float>(1.0 / temperature)));
    const Value log_p = graph::log_softmax(cold, 1);
    const Value entropy = graph::negate(graph::sum(graph::multiply(graph::exp(log_p), log_p), {1}));
    const Value right =
        graph::convert(graph::equal(graph::argmax(logits[0], 1), rows[0]), DType::f32);
    return std::vector{graph::multiply(entropy, right), right};
  };
  return over_head_rows("right_entropies", heads, arrays, body);
}

Value Entropy::build(const TermInputs& inputs) const {
  const auto& arrays = inputs.arrays;
  const Value hidden = inputs.student.hidden, normalizer = arrays.at(kNormalizer);
  const Value flat = graph::reshape(hidden, {hidden.dim(0) * hidden.dim(1), hidden.dim(2)});
  const std::vector<Value> found =
      right_entropies(inputs.builder.head(), graph::take(flat, arrays.at(kHeadRows)),
                      arrays.at(kHeadTargets), temperature_);
  const Value zeros = graph::full(inputs.builder.graph(), normalizer.shape(), 0.0f);
  const Value owners = arrays.at(kEntropyOwners);
  const Value sums = graph::scatter_add(zeros, owners, found[0]);
  const Value counts = graph::scatter_add(zeros, owners, graph::stop_gradient(found[1]));
  const Value means =
      graph::divide(sums, graph::maximum(counts, graph::scalar(inputs.builder.graph(), 1.0f)));
  return graph::sum(graph::multiply(means, normalizer), {0});
}

} // namespace

TermEntry term_files::entropy() {
  std::vector<OptionSpec> rows;
  rows.push_back(option_f64("entropy", 0.0, 0.0, 1e6,
                            "Weight of the entropy of predictions that are right, for decoding "
                            "many tokens at once; 0: none."));
  rows.push_back(
      option_f64("entropy_temperature", 0.5, 1e-3, 1e3, "Divides the logits of the entropy."));
  return {.options = std::move(rows), .make = new_term<Entropy>};
}

} // namespace dllm::noise
