#include "model/adapters/adapter_sums.h"

#include "model/params/part.h"

#include <algorithm>
#include <string_view>

namespace dllm::model {
namespace {

constexpr std::string_view kUpSuffix = ".lora_b"; // of stacks

// Adds a product: base (out, in) += factor * up (out, rank) down (rank, in).
void add_product(Tensor& base, const Tensor& down, const Tensor& up, float factor,
                 const Task* task) {
  const int64_t out = base.shape()[0], in = base.shape()[1], rank = down.shape()[0];
  float* w = base.mutable_as<float>().data();
  const float *a = down.as<float>().data(), *b = up.as<float>().data();
  for (int64_t o = 0; o < out; ++o) {
    check_task(task);
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

AdapterSums::AdapterSums(const std::vector<ParamStore::Physical>& entries,
                         const std::vector<std::string>& parts, const Task* task) {
  for (const std::string& part : parts) {
    for (const ParamStore::Physical& up : entries) {
      if (up.spec.part != part || !up.name.ends_with(kUpSuffix)) continue;
      const std::string stack = up.spec.name.substr(0, up.spec.name.size() - kUpSuffix.size());
      const auto down = std::ranges::find(entries, qualified_name(part, stack + ".lora_a"),
                                          &ParamStore::Physical::name);
      products_[stack].push_back(
          {down->spec, up.spec, down->buffer->read(task), up.buffer->read(task)});
    }
  }
}

Tensor AdapterSums::sum(const ParamSpec& base, size_t piece, int64_t layer, const Tensor& matrix,
                        const Task* task) const {
  const bool is_turned = base.pieces[piece].transpose;
  Tensor weight = is_turned ? transposed(matrix.to(DType::f32)) : matrix.to(DType::f32).clone();
  for (const Product& one : products_.at(base.name)) {
    add_product(weight, read_piece(one.down, piece, layer, one.downs),
                read_piece(one.up, piece, layer, one.ups), one.up.factor, task);
  }
  return is_turned ? transposed(weight) : weight;
}

} // namespace dllm::model
