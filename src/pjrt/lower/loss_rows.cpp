#include "pjrt/lower/loss_rows.h"

#include "graph/ops/build.h"

namespace dllm::pjrt {

using graph::Value;
using namespace graph::ops;

LossOperands loss_operands(const graph::Attributes& attributes, bool gradient) {
  OperandOrder order(2);
  LossOperands at{};
  at.head = head_operands(attributes, order);
  at.targets = order.take();
  at.count = order.take(attributes.flag("has_count"));
  at.lse = order.take(gradient);
  at.dnll = order.take(gradient);
  return at;
}

Value rows_with_target(Value targets, Value begin, Value count, int64_t vocab) {
  const Value named = logical_and(greater_equal(targets, full_like(targets, 0)),
                                  less(targets, full_like(targets, static_cast<double>(vocab))));
  if (!count.defined()) return named;
  const Value row = add(iota(*targets.graph, targets.shape(), DType::i32, 0), begin);
  return logical_and(named, less(row, count));
}

Value target_mask(Value targets, Value begin, int64_t width) {
  const Value id = iota(*targets.graph, Shape{1, width}, DType::i32, 1);
  return equal(id, column(subtract(targets, begin)));
}

} // namespace dllm::pjrt
