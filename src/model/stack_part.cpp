#include "model/stack_part.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace dllm::model {
namespace {

bool is_by_layers(const graph::Engine& engine, const ParamSpec& spec) {
  return engine.processes() > 1 && spec.layers > 1;
}

ParamSpec one_layer(const ParamSpec& spec, int64_t layer) {
  ParamSpec one = spec;
  one.layers = 1;
  one.first_layer = spec.first_layer + layer;
  return one;
}

// What this process keeps of a stack (layers, ...).
class StackPart {
public:
  // shape: of the whole stack. No layout cuts its first dimension.
  StackPart(const graph::Engine& engine, const graph::Layout& layout, DType dtype,
            const Shape& shape)
      : place_(engine.place()), layout_(layout),
        values_(dtype, layout.part_shape(shape, place_.mesh)) {}

  // whole: (1, ...).
  void put(int64_t layer, const Tensor& whole) {
    const Tensor part = layout_.part(whole, place_);
    values_.set_format(part.format());
    std::memcpy(values_.mutable_bytes() + layer * part.byte_size(), part.bytes(),
                static_cast<size_t>(part.byte_size()));
  }
  Tensor take() { return std::move(values_); }

private:
  graph::Placement place_;
  graph::Layout layout_;
  Tensor values_;
};

} // namespace

void fill_stack(ParamStore& store, size_t index, const ParamSpec& spec, const WeightFormat& format,
                const ReadStack& read, const Task* task) {
  if (!is_by_layers(store.engine(), spec)) {
    ParamForm form(spec, format);
    read(form, spec);
    return store.fill(index, form, task);
  }
  const ParamStore::Physical& entry = store.physical()[index];
  const bool has_scale = format.scales == ScalePlace::row_array;
  const ParamStore::Physical& scale_entry = store.physical()[index + (has_scale ? 1 : 0)];
  StackPart values(store.engine(), entry.layout, entry.dtype, entry.shape);
  StackPart scales(store.engine(), scale_entry.layout, scale_entry.dtype,
                   has_scale ? scale_entry.shape : scale_entry.shape.with_dim(0, 0));
  double rounding = 0;
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    const ParamSpec one = one_layer(spec, layer);
    ParamForm form(one, format);
    read(form, one);
    values.put(layer, form.values);
    if (has_scale) scales.put(layer, form.scale);
    rounding = std::max(rounding, form.rounding);
  }
  store.fill(index,
             ParamForm(format, values.take(), has_scale ? scales.take() : Tensor(), rounding),
             task);
}

graph::BufferRef upload_joined(graph::Engine& engine, const ParamSpec& spec,
                               const std::function<Tensor(const std::string&)>& read,
                               const Task* task) {
  const graph::Layout layout = spec.layout();
  if (!is_by_layers(engine, spec))
    return engine.upload_cut(join_logical(spec, DType::f32, read, task), false, layout);
  StackPart values(engine, layout, DType::f32, spec.shape());
  for (int64_t layer = 0; layer < spec.layers; ++layer)
    values.put(layer, join_logical(one_layer(spec, layer), DType::f32, read, task));
  return engine.upload_part(values.take(), false, layout);
}

graph::BufferRef upload_zeros(graph::Engine& engine, const ParamSpec& spec) {
  const graph::Layout layout = spec.layout();
  if (engine.processes() == 1)
    return engine.upload_cut(Tensor(DType::f32, spec.shape()), false, layout);
  return engine.upload_part(
      Tensor(DType::f32, layout.part_shape(spec.shape(), engine.place().mesh)), false, layout);
}

graph::BufferRef upload_copy(graph::Engine& engine, const graph::Buffer& buffer,
                             const graph::Layout& layout, const Task* task) {
  if (engine.processes() == 1)
    return engine.upload_cut(buffer.read(task).to(DType::f32, task), false, layout);
  return engine.upload_part(buffer.read_part(task).to(DType::f32, task), false, layout);
}

} // namespace dllm::model
