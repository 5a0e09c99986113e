#include "model/params/param_map.h"

#include "base/error.h"
#include "base/task.h"
#include "model/params/part.h"

#include <algorithm>

namespace dllm::model {

namespace {

// Transposes in (rows, columns) to out (columns, rows), in tiles that stay in the cache.
template <class T>
void transpose_into(const std::byte* in, std::byte* out, int64_t rows, int64_t columns,
                    const Task* task) {
  constexpr int64_t kTile = 32;
  const T* from = reinterpret_cast<const T*>(in);
  T* to = reinterpret_cast<T*>(out);
  in_pieces(rows, kTile, task, [&](int64_t begin, int64_t end) {
    for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
      for (int64_t r = begin; r < end; ++r) {
        for (int64_t c = c0; c < std::min(c0 + kTile, columns); ++c)
          to[c * rows + r] = from[r * columns + c];
      }
    }
  });
}

void transpose_bytes(const std::byte* in, std::byte* out, int64_t rows, int64_t columns,
                     int64_t size, const Task* task) {
  switch (size) {
  case 1: return transpose_into<uint8_t>(in, out, rows, columns, task);
  case 2: return transpose_into<uint16_t>(in, out, rows, columns, task);
  case 4: return transpose_into<uint32_t>(in, out, rows, columns, task);
  default: return transpose_into<uint64_t>(in, out, rows, columns, task);
  }
}

int64_t row_size(const ParamSpec& spec) {
  return spec.element.count() / spec.element[0];
}

void check_shape(const std::string& what, const Shape& found, const Shape& expected) {
  if (found != expected) {
    fail(Code::invalid_argument, "{}: shape {}, expected {}", what, found.text(), expected.text());
  }
}

} // namespace

int64_t piece_begin(const ParamSpec& spec, size_t piece, int64_t layer) {
  if (layer < 0 || layer >= spec.copies())
    fail(Code::internal, "{} has no layer {}", spec.name, layer);
  int64_t row = 0;
  for (size_t i = 0; i < piece; ++i) row += spec.pieces[i].rows;
  return layer * spec.element.count() + row * row_size(spec);
}

std::string ParamSpec::logical_name(const ParamPiece& piece, int64_t layer) const {
  return qualified_name(part, file_name(piece, layer));
}

std::string ParamSpec::file_name(const ParamPiece& piece, int64_t layer) const {
  const size_t mark = piece.logical.find("{}");
  if (mark == std::string::npos) return piece.logical;
  return piece.logical.substr(0, mark) + std::to_string(first_layer + layer) +
         piece.logical.substr(mark + 2);
}

bool name_matches(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (name.substr(0, star) != pattern.substr(0, star)) return false;
  pattern.remove_prefix(star + 1);
  for (size_t from = star; from <= name.size(); ++from) {
    if (name_matches(pattern, name.substr(from))) return true;
  }
  return false;
}

int64_t count_matches(const std::string& pattern, const ParamSpec& spec) {
  int64_t count = 0;
  for (int64_t layer = 0; layer < spec.copies(); ++layer) {
    for (const ParamPiece& piece : spec.pieces) {
      const bool hit =
          name_matches(pattern, spec.logical_name(piece, layer)) ||
          (spec.role == ParamRole::adapter && name_matches(pattern, spec.file_name(piece, layer)));
      count += hit ? 1 : 0;
    }
  }
  return count;
}

uint64_t name_number(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3u;
  return hash;
}

Shape ParamSpec::logical_shape(const ParamPiece& piece) const {
  if (element.rank() == 1) return {piece.rows};
  if (element.rank() == 3) return piece.stack ? element : element.without(0);
  if (piece.between) return {piece.rows, 1, element[1]};
  return piece.transpose ? Shape{element[1], piece.rows} : Shape{piece.rows, element[1]};
}

void write_piece(const ParamSpec& spec, size_t piece, int64_t layer, const Tensor& logical,
                 Tensor& physical, const Task* task) {
  const ParamPiece& part = spec.pieces[piece];
  check_shape(spec.logical_name(part, layer), logical.shape(), spec.logical_shape(part));
  check_shape(spec.name, physical.shape(), spec.shape());
  const int64_t size = dtype_size(physical.dtype());
  std::byte* to = physical.mutable_bytes() + piece_begin(spec, piece, layer) * size;
  if (part.transpose) {
    const Tensor same = logical.to(physical.dtype(), task);
    return transpose_bytes(same.bytes(), to, logical.shape()[0], logical.shape()[1], size, task);
  }
  convert(logical.dtype(), logical.bytes(), physical.dtype(), to, logical.count(), task);
}

Tensor read_piece(const ParamSpec& spec, size_t piece, int64_t layer, const Tensor& physical,
                  const Task* task) {
  check_shape(spec.name, physical.shape(), spec.shape());
  const ParamPiece& part = spec.pieces[piece];
  Tensor logical(physical.dtype(), spec.logical_shape(part));
  const int64_t size = dtype_size(physical.dtype());
  const std::byte* from = physical.bytes() + piece_begin(spec, piece, layer) * size;
  if (part.transpose)
    transpose_bytes(from, logical.mutable_bytes(), part.rows, logical.shape()[0], size, task);
  else
    copy_in_pieces(logical.mutable_bytes(), from, logical.byte_size(), task);
  return logical;
}

NamedTensors split_physical(const ParamSpec& spec, const Tensor& physical) {
  NamedTensors parts;
  for (int64_t layer = 0; layer < spec.copies(); ++layer) {
    for (size_t piece = 0; piece < spec.pieces.size(); ++piece) {
      parts.emplace_back(spec.logical_name(spec.pieces[piece], layer),
                         read_piece(spec, piece, layer, physical));
    }
  }
  return parts;
}

Tensor join_logical(const ParamSpec& spec, DType dtype,
                    const std::function<Tensor(const std::string&, size_t)>& read,
                    const Task* task) {
  Tensor physical(dtype, spec.shape());
  for (int64_t layer = 0; layer < spec.copies(); ++layer) {
    for (size_t piece = 0; piece < spec.pieces.size(); ++piece) {
      write_piece(spec, piece, layer, read(spec.logical_name(spec.pieces[piece], layer), piece),
                  physical, task);
    }
  }
  return physical;
}

const WeightFormat& storage_format(const ParamSpec& spec, const WeightFormat& wanted) {
  const WeightFormat& plain = weight_format(DType::f32);
  if (is_vector(spec.role) || spec.role == ParamRole::router || spec.role == ParamRole::adapter)
    return plain;
  const bool quantized = wanted.has_table() || wanted.is_blocks();
  if (spec.role == ParamRole::positions && quantized) return plain;
  const int64_t width = spec.element.dim(-1);
  if (wanted.fits(width)) return wanted;
  // Rows that are not whole blocks of 256 often are whole blocks of 32.
  const WeightFormat& smaller = weight_format("q8_0");
  return wanted.block > smaller.block && smaller.fits(width) ? smaller : plain;
}

ParamForm::ParamForm(const ParamSpec& spec, const WeightFormat& own)
    : format(&own), values(own.element, stored_shape(own, spec.shape())) {
  if (own.is_blocks()) values.set_format(&own);
  if (own.has_table()) scale = Tensor(DType::f32, table_shape(own, spec.shape()));
}

ParamForm::ParamForm(const WeightFormat& own, Tensor part, Tensor part_scale, double part_rounding)
    : format(&own), values(std::move(part)), scale(std::move(part_scale)), rounding(part_rounding),
      is_part(true) {}

std::byte* ParamForm::place(const ParamSpec& spec, size_t piece, int64_t layer) {
  if (format->has_table() || spec.pieces[piece].transpose) return nullptr;
  const int64_t begin = piece_begin(spec, piece, layer); // of a row: whole blocks
  return values.mutable_bytes() + begin / format->block * format->block_bytes;
}

void ParamForm::put(const ParamSpec& spec, size_t piece, int64_t layer, const Tensor& logical,
                    const Task* task) {
  if (!format->is_blocks() && !format->has_table())
    return write_piece(spec, piece, layer, logical, values, task);
  // Holds the rows of one piece as f32, in physical order.
  const int64_t width = spec.element[-1];
  const int64_t deep = spec.element.count() / spec.element[0] / width; // rows of one expert, or 1
  ParamSpec own = spec;
  own.layers = 0;
  own.first_layer = spec.first_layer + layer;
  own.element = Shape{spec.pieces[piece].rows * deep, width};
  own.pieces = {spec.pieces[piece]};
  own.pieces[0].rows = own.element[0];
  Tensor rows(DType::f32, own.element);
  write_piece(own, 0, 0, logical, rows, task);

  const int64_t first = first_row(spec, piece, layer);
  std::byte* out = values.mutable_bytes() + first * format->row_bytes(width);
  float* table = nullptr;
  if (format->has_table())
    table = scale.mutable_as<float>().data() + first * format->table_width(width);
  rounding = std::max(rounding, quantize_matrix(*format, rows.as<float>().data(), own.element[0],
                                                width, out, table, task));
}

int64_t ParamForm::first_row(const ParamSpec& spec, size_t piece, int64_t layer) {
  const int64_t deep = spec.element.count() / spec.element[0] / spec.element[-1];
  int64_t first = layer * spec.element[0] * deep;
  for (size_t i = 0; i < piece; ++i) first += spec.pieces[i].rows * deep;
  return first;
}

void ParamForm::put_rows(const ParamSpec& spec, size_t piece, int64_t layer, const Tensor& rows,
                         const Tensor& table) {
  const int64_t width = spec.element[-1], first = first_row(spec, piece, layer);
  std::memcpy(values.mutable_bytes() + first * format->row_bytes(width), rows.bytes(),
              static_cast<size_t>(rows.byte_size()));
  std::memcpy(scale.mutable_as<float>().data() + first * format->table_width(width), table.bytes(),
              static_cast<size_t>(table.byte_size()));
}

Tensor dequantize(const Tensor& values, const Tensor& scale, const Task* task) {
  if (values.format() == nullptr && values.dtype() != DType::i8) return values.to(DType::f32, task);
  const WeightFormat& format =
      values.format() != nullptr ? *values.format() : weight_format(values.dtype());
  Tensor wide(DType::f32, number_shape(values.format(), values.shape()));
  const int64_t width = wide.shape()[-1], bytes = format.row_bytes(width);
  float* to = wide.mutable_as<float>().data();
  const float* table = scale.defined() ? scale.as<float>().data() : nullptr;
  const int64_t own = table != nullptr ? format.table_width(width) : 0; // numbers of a row
  const int64_t rows = width == 0 ? 0 : wide.count() / width;
  in_pieces(rows, std::max<int64_t>(1, (int64_t{1} << 18) / std::max<int64_t>(1, width)), task,
            [&](int64_t begin, int64_t end) {
              for (int64_t r = begin; r < end; ++r)
                format.dequantize(values.bytes() + r * bytes,
                                  table == nullptr ? nullptr : table + r * own, width,
                                  to + r * width);
            });
  return wide;
}

} // namespace dllm::model
