#pragma once
// Builds one case: inputs with random content, outputs, what is differentiated.

#include "base/random.h"
#include "unit/graph/op_cases.h"

#include <functional>

namespace dllm::graph::test {

class CaseBuilder {
public:
  CaseBuilder(std::string op, const std::string& label);

  Graph& graph() { return *made_.graph; }
  // f32 in [low, high), differentiated.
  Value f(Shape shape, double low = -2, double high = 2);
  // The same, not differentiated.
  Value fixed(Shape shape, double low = -2, double high = 2);
  Value bf16(Shape shape);
  Value i8(Shape shape);
  Value u8(Shape shape);                           // 0 or 1
  Value u32(Shape shape);                          // any bits
  Value i(Shape shape, int32_t low, int32_t high); // i32 in [low, high)
  Value ints(Shape shape, std::vector<int32_t> values);
  Value given(Tensor tensor);

  // Outputs; those of float type that can be differentiated enter the loss, at most the first
  // `differentiable` of them.
  OpCase done(const std::vector<Value>& outputs, size_t differentiable = 100);

private:
  Value put(Tensor tensor, bool differentiated);
  double uniform();

  OpCase made_;
  Key key_;
  uint64_t drawn_ = 0;
};

} // namespace dllm::graph::test
