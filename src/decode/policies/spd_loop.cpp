#include "decode/policies/spd_loop.h"

#include "graph/ops.h"

namespace dllm::decode {
namespace {

using graph::Value;

class SpdLoop final : public LoopRule {
public:
  explicit SpdLoop(const SpdSettings& settings) : settings_(settings) {}
  int32_t reopening() const override { return settings_.mask_id; }
  Value wanted(const LoopMoment& moment) const override { return moment.eligible; }

  LoopChoice choose(const LoopMoment& moment, const PredictionValues& said) const override {
    graph::Graph& graph = moment.graph;
    const Value decided = without(moment.eligible, moment.open);
    LoopChoice choice;
    choice.commit = graph::logical_or(decided, leading(moment, said));
    // The block ends when nothing changed, when all of it is sure, or with its last step.
    const Value changed =
        graph::logical_and(choice.commit, graph::not_equal(said.token, moment.ids));
    const Value sure =
        graph::greater_equal(said.max_probability, graph::scalar(graph, settings_.confidence_stop));
    const Value settled =
        graph::logical_or(graph::logical_not(any_of(changed)),
                          graph::logical_not(any_of(without(moment.eligible, sure))));
    choice.ended =
        graph::logical_or(settled, graph::less_equal(moment.count, graph::scalar_i32(graph, 1)));
    const Shape one{moment.rows(), moment.block(), 1};
    // dllm-jax mixes the token that was drawn, with the probability of the likeliest one.
    const bool drawn = settings_.is_jax() && settings_.mix_top_k == 1;
    choice.soft_ids = drawn ? graph::reshape(said.token, one) : said.top_ids;
    choice.soft_weights = drawn ? graph::reshape(said.max_probability, one) : said.top_probs;
    return choice;
  }

private:
  // Masks before the first one below the threshold, and the leftmost.
  Value leading(const LoopMoment& moment, const PredictionValues& said) const {
    graph::Graph& graph = moment.graph;
    const auto upto = [](Value flags) { // how many there are up to a position, itself included
      return graph::cumsum(graph::convert(flags, DType::i32), 1);
    };
    const Value low = graph::less(said.probability, graph::scalar(graph, settings_.threshold));
    const Value fails = graph::logical_and(moment.open, low);
    const Value before = graph::equal(upto(fails), graph::scalar_i32(graph, 0));
    const Value leftmost = graph::equal(upto(moment.open), graph::scalar_i32(graph, 1));
    return graph::logical_and(moment.open, graph::logical_or(before, leftmost));
  }

  SpdSettings settings_;
};

} // namespace

LoopOffer spd_loop(const SpdSettings& settings) {
  if (settings.implementation == SpdImplementation::reference)
    return {nullptr, "implementation reference goes from step to step by the host"};
  return {std::make_unique<SpdLoop>(settings), ""};
}

} // namespace dllm::decode
