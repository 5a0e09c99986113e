#include "model/adapters/adapter_sums.h"

#include "model/params/part.h"

#include <string_view>

namespace dllm::model {
namespace {

constexpr std::string_view kUpSuffix = ".lora_b"; // of stacks

// Adds a product: base (out, in) += factor * up (out, rank) down (rank, in).
void add_product(Tensor& base, const Tensor& down, const Tensor& up, float factor) {
  const int64_t out = base.shape()[0], in = base.shape()[1], rank = down.shape()[0];
  float* w = base.mutable_as<float>().data();
  const float *a = down.as<float>().data(), *b = up.as<float>().data();
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t r = 0; r < rank; ++r) {
      const float weight = factor * b[o * rank + r];
      for (int64_t i = 0; i < in; ++i) w[o * in + i] += weight * a[r * in + i];
    }
  }
}

Tensor transposed(const Tensor& matrix) {
  const int64_t rows = matrix.shape()[0], columns = matrix.shape()[1];
  Tensor made(DType::f32, {columns, rows});
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c)
      made.mutable_as<float>()[static_cast<size_t>(c * rows + r)] =
          matrix.as<float>()[static_cast<size_t>(r * columns + c)];
  }
  return made;
}

} // namespace

AdapterSums::AdapterSums(const ParamStore& params, const std::vector<std::string>& parts,
                         const Task* task) {
  const std::vector<ParamStore::Physical> entries = params.entries(task);
  for (const std::string& part : parts) {
    for (const ParamStore::Physical& up : entries) {
      if (up.spec.part != part || !up.name.ends_with(kUpSuffix)) continue;
      const std::string stack = up.spec.name.substr(0, up.spec.name.size() - kUpSuffix.size());
      const size_t down = params.index(qualified_name(part, stack + ".lora_a"));
      products_[stack].push_back({entries[down].spec, up.spec, params.widened(down, task),
                                  params.widened(params.index(up.name), task)});
    }
  }
}

Tensor AdapterSums::sum(const ParamSpec& base, size_t piece, int64_t layer,
                        const Tensor& matrix) const {
  const bool is_turned = base.pieces[piece].transpose;
  Tensor weight = is_turned ? transposed(matrix.to(DType::f32)) : matrix.to(DType::f32).clone();
  for (const Product& one : products_.at(base.name)) {
    add_product(weight, read_piece(one.down, piece, layer, one.downs),
                read_piece(one.up, piece, layer, one.ups), one.up.factor);
  }
  return is_turned ? transposed(weight) : weight;
}

} // namespace dllm::model
