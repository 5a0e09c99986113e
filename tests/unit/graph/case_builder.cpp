#include "unit/graph/case_builder.h"

namespace dllm::graph::test {

CaseBuilder::CaseBuilder(std::string op, const std::string& label) : key_(make_key(7)) {
  made_.label = label.empty() ? op : op + "/" + label;
  made_.op = std::move(op);
  made_.graph = std::make_shared<Graph>(made_.op);
  for (char c : made_.label) key_ = fold_in(key_, static_cast<uint32_t>(c));
}

double CaseBuilder::uniform() {
  return static_cast<double>(uniform_from_bits(random_bits_at(key_, drawn_++)));
}

Value CaseBuilder::put(Tensor tensor, bool differentiated) {
  const size_t index = made_.inputs.size();
  const Value value = graph().input("x" + std::to_string(index),
                                    {tensor.shape(), tensor.dtype(), {}, tensor.format()});
  if (differentiated) made_.wrt.push_back(index);
  made_.inputs.push_back(std::move(tensor));
  return value;
}

Value CaseBuilder::f(Shape shape, double low, double high) {
  Tensor tensor(DType::f32, std::move(shape));
  for (float& v : tensor.mutable_as<float>())
    v = static_cast<float>(low + (high - low) * uniform());
  return put(std::move(tensor), true);
}

Value CaseBuilder::fixed(Shape shape, double low, double high) {
  const Value value = f(std::move(shape), low, high);
  made_.wrt.pop_back();
  return value;
}

Value CaseBuilder::bf16(Shape shape) {
  Tensor tensor(DType::f32, std::move(shape));
  for (float& v : tensor.mutable_as<float>()) v = static_cast<float>(4 * uniform() - 2);
  return put(tensor.to(DType::bf16), false);
}

Value CaseBuilder::i(Shape shape, int32_t low, int32_t high) {
  Tensor tensor(DType::i32, std::move(shape));
  for (int32_t& v : tensor.mutable_as<int32_t>())
    v = low + static_cast<int32_t>((high - low) * uniform());
  return put(std::move(tensor), false);
}

Value CaseBuilder::i8(Shape shape) {
  Tensor tensor(DType::i8, std::move(shape));
  for (int8_t& v : tensor.mutable_as<int8_t>())
    v = static_cast<int8_t>(static_cast<int>(255 * uniform()) - 127);
  return put(std::move(tensor), false);
}

Value CaseBuilder::u8(Shape shape) {
  Tensor tensor(DType::u8, std::move(shape));
  for (uint8_t& v : tensor.mutable_as<uint8_t>()) v = uniform() < 0.6;
  return put(std::move(tensor), false);
}

Value CaseBuilder::u32(Shape shape) {
  Tensor tensor(DType::u32, std::move(shape));
  for (uint32_t& v : tensor.mutable_as<uint32_t>()) v = random_bits_at(key_, drawn_++);
  return put(std::move(tensor), false);
}

Value CaseBuilder::ints(Shape shape, std::vector<int32_t> values) {
  return put(Tensor::from(std::move(shape), values), false);
}

Value CaseBuilder::given(Tensor tensor) {
  return put(std::move(tensor), false);
}

OpCase CaseBuilder::done(const std::vector<Value>& outputs, size_t differentiable) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    graph().output("y" + std::to_string(i), outputs[i]);
    if (outputs[i].dtype() == DType::f32 && i < differentiable) made_.grad_outputs.push_back(i);
  }
  return std::move(made_);
}

} // namespace dllm::graph::test
