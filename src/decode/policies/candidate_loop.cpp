#include "decode/policies/candidate_loop.h"

#include "graph/ops.h"

namespace dllm::decode {
namespace {

using graph::Value;

class CandidateLoop final : public LoopRule {
public:
  CandidateLoop(SelectGraph select, int32_t mask_id)
      : select_(std::move(select)), mask_id_(mask_id) {}

  LoopChoice choose(const LoopMoment& moment, const PredictionValues& said) const override {
    const Value masked = graph::equal(said.token, graph::scalar_i32(moment.graph, mask_id_));
    const Value candidates = without(moment.open, masked);
    const CandidateChoice chosen = select_(moment, said, candidates);
    LoopChoice choice;
    choice.commit = first_of(chosen.order, chosen.count, candidates);
    choice.stuck = graph::logical_not(any_of(candidates));
    choice.carry = chosen.carry;
    return choice;
  }

private:
  SelectGraph select_;
  int32_t mask_id_;
};

} // namespace

LoopOffer candidate_loop(SelectGraph select, int32_t mask_id) {
  return {std::make_unique<CandidateLoop>(std::move(select), mask_id), ""};
}

Value sorted_by(const LoopOrder& order, Value x) {
  return graph::take_along(x, order.at, 1);
}

Value count_of(Value flags) {
  return graph::sum(graph::convert(flags, DType::i32), {1});
}

Value prefix_of(Value flags) {
  const Value failed = graph::cumsum(graph::convert(graph::logical_not(flags), DType::i32), 1);
  return count_of(graph::equal(failed, graph::scalar_i32(*flags.graph, 0)));
}

Value in_use(Value count, const Shape& shape) {
  return graph::less(graph::iota(*count.graph, shape, DType::i32, 1), per_row(count));
}

} // namespace dllm::decode
