#include "model/param_map.h"

#include "base/error.h"
#include "base/task.h"

#include <algorithm>

namespace dllm::model {
namespace {

// out (columns, rows) = in (rows, columns), in tiles that stay in the cache.
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
    for (const ParamPiece& piece : spec.pieces)
      count += name_matches(pattern, spec.logical_name(piece, layer)) ? 1 : 0;
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
  if (element.rank() == 3) return element.without(0);
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
                    const std::function<Tensor(const std::string&)>& read, const Task* task) {
  Tensor physical(dtype, spec.shape());
  for (int64_t layer = 0; layer < spec.copies(); ++layer) {
    for (size_t piece = 0; piece < spec.pieces.size(); ++piece) {
      write_piece(spec, piece, layer, read(spec.logical_name(spec.pieces[piece], layer)), physical,
                  task);
    }
  }
  return physical;
}

} // namespace dllm::model
