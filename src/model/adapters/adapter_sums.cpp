#include "model/adapters/adapter_sums.h"

#include "model/params/part.h"

#include <algorithm>
#include <cmath>
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

// Adds the change of DoRA: base += share (m / |V| V - W), where V = W + factor up down.
void add_direction(Tensor& base, const Tensor& weight, const Tensor& sum, const Tensor& magnitude,
                   float share) {
  const int64_t out = base.shape()[0], in = base.shape()[1];
  float* to = base.mutable_as<float>().data();
  const float *w = weight.as<float>().data(), *v = sum.as<float>().data(),
              *m = magnitude.as<float>().data();
  for (int64_t o = 0; o < out; ++o) {
    double squares = 0;
    for (int64_t i = 0; i < in; ++i) squares += static_cast<double>(v[o * in + i]) * v[o * in + i];
    constexpr double kLeastNorm = 1e-20; // of a row of zeros
    const auto by = static_cast<float>(m[o] / std::max(std::sqrt(squares), kLeastNorm));
    for (int64_t i = 0; i < in; ++i) to[o * in + i] += share * (by * v[o * in + i] - w[o * in + i]);
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
      if (up.spec.part != part) continue;
      if (!is_low_rank(up.spec.name) && up.spec.factor != 0)
        copies_[up.spec.name] = {up.spec, up.buffer->read(task)};
      if (!up.name.ends_with(kUpSuffix)) continue;
      const std::string stack = up.spec.name.substr(0, up.spec.name.size() - kUpSuffix.size());
      const auto down = std::ranges::find(entries, qualified_name(part, stack + ".lora_a"),
                                          &ParamStore::Physical::name);
      Product made{down->spec, up.spec, down->buffer->read(task), up.buffer->read(task), {}, {}};
      const auto magnitude = std::ranges::find(entries, qualified_name(part, stack + ".lora_m"),
                                               &ParamStore::Physical::name);
      if (magnitude != entries.end()) {
        made.magnitude = magnitude->spec;
        made.magnitudes = magnitude->buffer->read(task);
      }
      products_[stack].push_back(std::move(made));
    }
  }
}

Tensor AdapterSums::sum(const ParamSpec& base, size_t piece, int64_t layer, const Tensor& matrix,
                        const Task* task) const {
  if (const auto copy = copies_.find(base.name); copy != copies_.end())
    return read_piece(copy->second.spec, piece, layer, copy->second.values);
  const bool is_turned = base.pieces[piece].transpose;
  const Tensor weight = is_turned ? transposed(matrix.to(DType::f32)) : matrix.to(DType::f32);
  Tensor made = weight.clone();
  for (const Product& one : products_.at(base.name)) {
    const Tensor down = read_piece(one.down, piece, layer, one.downs),
                 up = read_piece(one.up, piece, layer, one.ups);
    if (!one.magnitude) {
      add_product(made, down, up, one.up.factor, task);
      continue;
    }
    Tensor sum = weight.clone();
    add_product(sum, down, up, one.up.factor, task);
    add_direction(made, weight, sum, read_piece(*one.magnitude, piece, layer, one.magnitudes),
                  one.magnitude->factor);
  }
  return is_turned ? transposed(made) : made;
}

} // namespace dllm::model
