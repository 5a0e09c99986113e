#pragma once
// Runs one kernel without graph passes or executor: a node of its own making, outputs and scratch
// full of garbage.

#include "base/threads/parallel.h"
#include "cpu/gemm/gemm.h"
#include "cpu/kernel.h"
#include "graph/graph.h"
#include "graph/op.h"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace dllm::cpu {

struct KernelSetup {
  KernelFactory factory;
  std::vector<Tensor> inputs;
  std::vector<graph::ValueType> outputs;
  graph::Attributes attributes;
  int threads = 1;
  std::vector<bool> keeps_forms = {}; // per input; empty: none
  Arithmetic arithmetic = kArithmeticF32;
};

namespace testing_detail {

inline std::vector<graph::ValueType>& wanted_types() {
  thread_local std::vector<graph::ValueType> types;
  return types;
}
inline std::vector<graph::ValueType> give_types(const graph::OpCall&) {
  return wanted_types();
}

inline std::byte* aligned(std::vector<std::byte>& storage, int64_t bytes) {
  storage.assign(static_cast<size_t>(bytes) + 64, std::byte{0xFF}); // NaN when read as f32
  void* at = storage.data();
  size_t space = storage.size();
  return static_cast<std::byte*>(std::align(64, static_cast<size_t>(bytes), at, space));
}

} // namespace testing_detail

// A kernel with its operands in the forms it wants; run() may be called many times.
class KernelRunner {
public:
  explicit KernelRunner(const KernelSetup& setup) : setup_(setup), pool_(setup.threads) {
    static constexpr graph::OpDef op{.name = "kernel_under_test",
                                     .infer = testing_detail::give_types};
    std::vector<graph::Value> values;
    for (size_t i = 0; i < setup_.inputs.size(); ++i) {
      const Tensor& input = setup_.inputs[i];
      values.push_back(graph_.input("x" + std::to_string(i),
                                    {input.shape(), input.dtype(), {}, input.format()}));
    }
    testing_detail::wanted_types() = setup_.outputs;
    graph_.add(op, values, setup_.attributes);
    setup_.keeps_forms.resize(setup_.inputs.size(), false);
    kernel_ = setup_.factory(
        {graph_, graph_.nodes().back(), setup_.threads, setup_.keeps_forms, {}, setup_.arithmetic});
    storage_.resize(2 * setup_.inputs.size() + 1);
    for (size_t i = 0; i < setup_.inputs.size(); ++i) inputs_.push_back(operand(i));
    for (const graph::ValueType& type : setup_.outputs) {
      results_.emplace_back(type.dtype, type.shape);
      outputs_.push_back({results_.back().mutable_bytes()});
      std::memset(outputs_.back().data, 0xFF, static_cast<size_t>(results_.back().byte_size()));
    }
    scratch_ = testing_detail::aligned(storage_.back(), kernel_.scratch_bytes);
  }

  void run() { kernel_.run({inputs_.data(), outputs_.data(), scratch_, &pool_}); }
  const std::vector<Tensor>& results() const { return results_; }
  FormSet wants(size_t input) const { return kernel_.wants.at(input); }

private:
  Operand operand(size_t i) {
    using testing_detail::aligned;
    const Tensor& tensor = setup_.inputs[i];
    Operand made;
    made.data = const_cast<std::byte*>(tensor.bytes());
    const FormSet wants = i < kernel_.wants.size() ? kernel_.wants[i] : FormSet{kPlain};
    if (!setup_.keeps_forms[i] || (wants & ~FormSet{kPlain}) == 0) return made;
    for (const Form kind : {kPacked, kPackedTransposed}) {
      if ((wants & kind) == 0) continue;
      const Shape numbers = number_shape(tensor.format(), tensor.shape());
      const int64_t n = numbers.dim(-2), k = numbers.dim(-1);
      const int64_t matrices = numbers.count() / (n * k);
      const PanelForm form = panel_form(setup_.arithmetic, tensor.dtype(), tensor.format(), k,
                                        kind == kPackedTransposed);
      std::byte* to =
          aligned(storage_[2 * i + (kind == kPacked ? 0 : 1)], matrices * form.bytes(n, k));
      for (int64_t m = 0; m < matrices; ++m)
        pack(form, tensor.bytes() + m * (tensor.byte_size() / matrices), n, k,
             to + m * form.bytes(n, k), nullptr);
      (kind == kPacked ? made.packed : made.packed_transposed) = to;
    }
    if (!(wants & kPlain)) made.data = nullptr;
    return made;
  }

  KernelSetup setup_;
  ThreadPool pool_;
  graph::Graph graph_;
  Kernel kernel_;
  std::vector<std::vector<std::byte>> storage_;
  std::vector<Operand> inputs_, outputs_;
  std::vector<Tensor> results_;
  std::byte* scratch_ = nullptr;
};

inline std::vector<Tensor> run_kernel(const KernelSetup& setup) {
  KernelRunner runner(setup);
  runner.run();
  return runner.results();
}

// --- numbers ---

inline Tensor random_tensor(Shape shape, uint32_t state, float size = 1.0f) {
  std::vector<float> made(static_cast<size_t>(shape.count()));
  for (float& x : made) {
    state = state * 1664525u + 1013904223u;
    x = (static_cast<float>(state >> 8) / 16777216.0f - 0.5f) * 2.0f * size;
  }
  return Tensor::from(std::move(shape), made);
}

inline std::vector<double> doubles(const Tensor& tensor) {
  const auto values = tensor.as<float>();
  return {values.begin(), values.end()};
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.byte_size() == b.byte_size() &&
         std::memcmp(a.bytes(), b.bytes(), static_cast<size_t>(a.byte_size())) == 0;
}
inline bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!same_bits(a[i], b[i])) return false;
  }
  return true;
}

inline graph::ValueType f32_type(Shape shape) {
  return {std::move(shape), DType::f32, {}};
}
inline graph::ValueType i32_type(Shape shape) {
  return {std::move(shape), DType::i32, {}};
}

} // namespace dllm::cpu
