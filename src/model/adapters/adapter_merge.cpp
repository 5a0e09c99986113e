// Adds the products of adapters to the weights of the base.

#include "base/error.h"
#include "model/adapters/adapter.h"

#include <string>
#include <vector>

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

// Adds the products of one stack. Each stack is read once; writes are collected and uploaded once.
void merge_stack(ParamStore& params, const ParamStore::Physical& upper, const Task* task) {
  const std::string name = upper.spec.name.substr(0, upper.spec.name.size() - kUpSuffix.size());
  const size_t at = params.index(name);
  const size_t down_at = params.index(qualified_name(upper.spec.part, name + ".lora_a"));
  const ParamSpec base = params.physical()[at].spec, down = params.physical()[down_at].spec;
  const Tensor weights = params.widened(at, task), downs = params.widened(down_at, task),
               ups = params.widened(params.index(upper.name), task);
  for (int64_t layer = 0; layer < base.copies(); ++layer) {
    for (size_t piece = 0; piece < base.pieces.size(); ++piece) {
      check_task(task);
      const bool turned = base.pieces[piece].transpose;
      Tensor weight = read_piece(base, piece, layer, weights);
      if (turned) weight = transposed(weight);
      add_product(weight, read_piece(down, piece, layer, downs),
                  read_piece(upper.spec, piece, layer, ups), upper.spec.factor);
      params.write(base.logical_name(base.pieces[piece], layer),
                   turned ? transposed(weight) : weight);
    }
  }
}

void merge_part(Model& model, const std::string& part, const Task* task) {
  ParamStore& params = model.params();
  const std::vector<ParamStore::Physical> all = params.entries();
  for (const ParamStore::Physical& entry : all) {
    if (entry.spec.part == part && entry.name.ends_with(kUpSuffix))
      merge_stack(params, entry, task);
  }
}

} // namespace

void merge_adapter(Model& model, const std::string& name, const Task* task) {
  const std::string part = find_adapter(model, name)->name;
  const Model::Backup before = model.backup();
  try {
    merge_part(model, part, task);
    check_task(task);
    model.params().entries(); // uploads what was written
  } catch (...) {
    model.restore(before);
    throw;
  }
  model.drop_part(part);
}

void merge_adapters(Model& model, const Task* task) {
  for (const std::string& part : model.parts().names()) {
    if (model.parts().find(part)->kind == PartKind::adapter)
      merge_adapter(model, adapter_name(part), task);
  }
}

} // namespace dllm::model
