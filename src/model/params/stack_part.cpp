#include "model/params/stack_part.h"

#include "base/error.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace dllm::model {
namespace {

struct Range {
  int64_t begin, size;
};

// Returns the box of a part in one logical tensor. The part has `rows` of the tensor's rows.
// `element` is the box of the part in one layer.
Box logical_box(const ParamPiece& piece, const Range& rows, const Box& element) {
  const std::vector<int64_t>& begin = element.begin;
  const Shape& size = element.shape;
  if (size.rank() == 1) return {{rows.begin}, {rows.size}};
  if (size.rank() == 3 && piece.stack) return {{rows.begin, begin[1], begin[2]}, size};
  if (size.rank() == 3) return {{begin[1], begin[2]}, size.without(0)};
  if (piece.between) return {{rows.begin, 0, begin[1]}, {rows.size, 1, size[1]}};
  if (piece.transpose) return {{begin[1], rows.begin}, {size[1], rows.size}};
  return {{rows.begin, begin[1]}, {rows.size, size[1]}};
}

// Returns the part of a stack in `box`.
StackPart part_at(const ParamSpec& spec, const Box& box) {
  Box element = box;
  if (spec.layers > 0) {
    element.begin.erase(element.begin.begin());
    element.shape = element.shape.without(0);
  }
  StackPart part{spec, {}, {}};
  part.spec.element = element.shape;
  part.spec.pieces.clear();
  const int64_t first = element.begin[0], last = first + element.shape[0];
  int64_t row = 0; // of the piece
  for (const ParamPiece& piece : spec.pieces) {
    const int64_t begin = std::max(first, row), end = std::min(last, row + piece.rows);
    if (begin < end) {
      part.whole.push_back(spec.logical_shape(piece));
      part.boxes.push_back(logical_box(piece, {begin - row, end - begin}, element));
      part.spec.pieces.push_back(piece);
      part.spec.pieces.back().rows = end - begin;
    }
    row += piece.rows;
  }
  return part;
}

// Returns this process's box of a whole array.
Box own_box(const graph::Engine& engine, const graph::Layout& layout, const Shape& shape) {
  if (engine.processes() == 1) return Box::whole(shape);
  const graph::Placement place = engine.place();
  Box box{{}, layout.part_shape(shape, place.mesh)};
  for (int64_t d = 0; d < shape.rank(); ++d) {
    graph::AxisSet axes; // that cut this dimension
    for (int i = 0; i < graph::kAxisCount; ++i) {
      const auto axis = static_cast<graph::Axis>(i);
      if (layout.dim(axis) == d) axes = axes.with(graph::AxisSet(axis));
    }
    box.begin.push_back(place.mesh.index(place.rank, axes) * box.shape.dim(d));
  }
  return box;
}

ParamSpec one_layer(const ParamSpec& spec, int64_t layer) {
  ParamSpec one = spec;
  one.layers = 1;
  one.first_layer = spec.first_layer + layer;
  return one;
}

// Reads a part with some columns of 8-bit rows. A row has one scale for all its numbers, so the
// part is cut from whole rows, layer by layer.
ParamForm form_of_columns(const ParamStore::Physical& entry, Box box, const ReadStack& read) {
  const int64_t last = entry.shape.rank() - 1;
  const Box columns{{box.begin.back()}, {box.shape[-1]}};
  Tensor values(entry.dtype, box.shape);
  Tensor scale(DType::f32, box.shape.without(-1));
  box.begin.back() = 0;
  box.shape = box.shape.with_dim(last, entry.shape[-1]);
  double rounding = 0;
  const bool is_stack = entry.spec.layers > 0;
  for (int64_t layer = 0; layer < entry.spec.copies(); ++layer) {
    if (is_stack) box.shape = box.shape.with_dim(0, 1); // no layout cuts the layers
    const StackPart wide = part_at(is_stack ? one_layer(entry.spec, layer) : entry.spec, box);
    ParamForm form(wide.spec, *entry.format);
    read(form, wide);
    Box own = Box::whole(form.values.shape());
    own.begin.back() = columns.begin[0];
    own.shape = own.shape.with_dim(last, columns.shape[0]);
    const Tensor cut = part_of(form.values, own);
    std::memcpy(values.mutable_bytes() + layer * cut.byte_size(), cut.bytes(),
                static_cast<size_t>(cut.byte_size()));
    std::memcpy(scale.mutable_bytes() + layer * form.scale.byte_size(), form.scale.bytes(),
                static_cast<size_t>(form.scale.byte_size()));
    rounding = std::max(rounding, form.rounding);
  }
  return ParamForm(*entry.format, std::move(values), std::move(scale), rounding);
}

} // namespace

StackPart own_part(const ParamStore& store, size_t index) {
  const ParamStore::Physical& entry = store.physical()[index];
  const Box box = own_box(store.engine(), entry.layout, entry.spec.shape());
  const int64_t width = box.shape[-1], block = entry.format->block;
  if (entry.format->is_blocks() && width % block != 0) {
    fail_with_hint("cut the rows, or keep the weight in another format", Code::invalid_argument,
                   "{}: {} numbers of a row are not whole blocks of {} numbers ({})", entry.name,
                   width, block, entry.format->name);
  }
  return part_at(entry.spec, box);
}

StackPart own_part(const graph::Engine& engine, const ParamSpec& spec) {
  return part_at(spec, own_box(engine, spec.layout(), spec.shape()));
}

void fill_stack(ParamStore& store, size_t index, const ReadStack& read, const Task* task) {
  const ParamStore::Physical& entry = store.physical()[index];
  const WeightFormat& format = *entry.format;
  const Box box = own_box(store.engine(), entry.layout, entry.spec.shape());
  const bool cuts_rows = box.shape[-1] != entry.spec.shape()[-1];
  if (format.has_table() && format.is_blocks() && cuts_rows) {
    fail_with_hint("cut the rows, or keep the weight in another format", Code::unimplemented,
                   "{}: {} keeps a table of whole rows, and a rank would have {} of {} numbers",
                   entry.name, format.name, box.shape[-1], entry.spec.shape()[-1]);
  }
  if (format.has_table() && cuts_rows)
    return store.fill(index, form_of_columns(entry, box, read), task);
  const StackPart part = own_part(store, index);
  ParamForm form(part.spec, format);
  read(form, part);
  form.is_part = store.engine().processes() > 1;
  store.fill(index, form, task);
}

Tensor joined_part(const graph::Engine& engine, const ParamSpec& spec,
                   const std::function<Tensor(const std::string&, const Box&)>& read,
                   const Task* task) {
  const StackPart part = own_part(engine, spec);
  const auto read_own = [&](const std::string& name, size_t piece) {
    return read(name, part.boxes[piece]);
  };
  return join_logical(part.spec, DType::f32, read_own, task);
}

graph::BufferRef upload_own(graph::Engine& engine, const Tensor& part, const ParamSpec& spec) {
  return engine.processes() == 1 ? engine.upload_cut(part, false, spec.layout())
                                 : engine.upload_part(part, false, spec.layout());
}

graph::BufferRef upload_joined(graph::Engine& engine, const ParamSpec& spec,
                               const std::function<Tensor(const std::string&, const Box&)>& read,
                               const Task* task) {
  return upload_own(engine, joined_part(engine, spec, read, task), spec);
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
