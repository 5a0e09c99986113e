// Types, values and lines of StableHLO text.

#include "pjrt/emit/emit.h"

#include "base/error.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

namespace dllm::pjrt::hlo {

Element element_of(DType dtype) {
  switch (dtype) {
  case DType::f32: return Element::f32;
  case DType::bf16: return Element::bf16;
  case DType::i32: return Element::i32;
  case DType::u32: return Element::ui32;
  case DType::u8: return Element::ui8;
  case DType::i8: return Element::i8;
  default: fail(Code::internal, "{} is not a type of a graph", dtype_name(dtype));
  }
}

const char* element_name(Element element) {
  switch (element) {
  case Element::i1: return "i1";
  case Element::ui8: return "ui8";
  case Element::i8: return "i8";
  case Element::i32: return "i32";
  case Element::ui32: return "ui32";
  case Element::ui64: return "ui64";
  case Element::bf16: return "bf16";
  case Element::f32: return "f32";
  }
  return "";
}

int64_t element_size(Element element) {
  switch (element) {
  case Element::i1:
  case Element::ui8:
  case Element::i8: return 1;
  case Element::bf16: return 2;
  case Element::ui64: return 8;
  default: return 4;
  }
}

bool is_signed(Element element) {
  return element == Element::i8 || element == Element::i32;
}

bool is_floating(Element element) {
  return element == Element::f32 || element == Element::bf16;
}

std::string Type::text() const {
  std::string text = "tensor<";
  for (int64_t dim : shape.dims()) text += fmt::format("{}x", dim);
  return text + element_name(element) + ">";
}

std::string array_text(const std::vector<int64_t>& values) {
  if (values.empty()) return "array<i64>";
  return fmt::format("array<i64: {}>", fmt::join(values, ", "));
}

std::string list_text(const std::vector<int64_t>& values) {
  return fmt::format("[{}]", fmt::join(values, ", "));
}

std::string table_text(const std::vector<std::vector<int64_t>>& rows) {
  std::string text = "dense<[";
  for (size_t i = 0; i < rows.size(); ++i) text += (i > 0 ? ", " : "") + list_text(rows[i]);
  return text + fmt::format("]> : tensor<{}x{}xi64>", rows.size(), rows.at(0).size());
}

namespace {

std::string names(const Ssas& values) {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i)
    text += fmt::format("{}%{}", i > 0 ? ", " : "", values[i].number);
  return text;
}

std::string types(const Ssas& values) {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) text += (i > 0 ? ", " : "") + values[i].type.text();
  return text;
}

// Returns the text of one element inside dense<...>.
std::string element_text(Element element, uint64_t bits) {
  switch (element) {
  case Element::i1: return bits != 0 ? "true" : "false";
  case Element::i8: return std::to_string(static_cast<int8_t>(bits));
  case Element::i32: return std::to_string(static_cast<int32_t>(bits));
  case Element::ui8:
  case Element::ui32:
  case Element::ui64: return std::to_string(bits);
  case Element::bf16: return fmt::format("0x{:04X}", bits);
  case Element::f32: return fmt::format("0x{:08X}", bits);
  }
  return {};
}

uint64_t bits_of(Element element, double value) {
  switch (element) {
  case Element::f32: return std::bit_cast<uint32_t>(static_cast<float>(value));
  case Element::bf16: return f32_to_bf16(static_cast<float>(value));
  case Element::i8: return static_cast<uint8_t>(static_cast<int8_t>(value));
  case Element::i32: return static_cast<uint32_t>(static_cast<int32_t>(value));
  default: return static_cast<uint64_t>(value);
  }
}

uint64_t element_bits(const Tensor& literal, int64_t index) {
  const int64_t size = dtype_size(literal.dtype());
  uint64_t bits = 0;
  std::memcpy(&bits, literal.bytes() + index * size, static_cast<size_t>(size)); // little-endian
  return bits;
}

std::string hex_text(const Tensor& literal) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string text = "0x";
  text.reserve(static_cast<size_t>(2 * literal.byte_size() + 2));
  for (int64_t i = 0; i < literal.byte_size(); ++i) {
    const auto byte = static_cast<unsigned>(literal.bytes()[i]);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15u];
  }
  return text;
}

} // namespace

void Writer::line(const std::string& line) {
  text_.append(static_cast<size_t>(depth_), ' ');
  text_ += line;
  text_ += '\n';
}

Ssas Writer::op(std::string_view name, const Ssas& operands, const std::vector<Type>& results,
                const std::string& attributes, const std::vector<Region>& regions) {
  Ssas made;
  for (const Type& type : results) made.push_back(fresh(type));
  text_.append(static_cast<size_t>(depth_), ' ');
  if (!made.empty()) text_ += names(made) + " = ";
  text_ += fmt::format("\"{}\"({})", name, names(operands));
  if (!attributes.empty()) text_ += fmt::format(" <{{{}}}>", attributes);
  if (!regions.empty()) {
    text_ += " (";
    for (size_t i = 0; i < regions.size(); ++i) {
      text_ += i > 0 ? ", {\n" : "{\n";
      region(regions[i]);
      text_.append(static_cast<size_t>(depth_), ' ');
      text_ += "}";
    }
    text_ += ")";
  }
  const std::string result = made.size() == 1 ? types(made) : "(" + types(made) + ")";
  text_ += fmt::format(" : ({}) -> {}\n", types(operands), result);
  return made;
}

Ssa Writer::op1(std::string_view name, const Ssas& operands, const Type& result,
                const std::string& attributes, const std::vector<Region>& regions) {
  return op(name, operands, {result}, attributes, regions)[0];
}

void Writer::region(const Region& region) {
  depth_ += 2;
  known_.emplace_back();
  Ssas arguments;
  std::string list;
  for (const Type& type : region.arguments) {
    arguments.push_back(fresh(type));
    list +=
        fmt::format("{}%{}: {}", list.empty() ? "" : ", ", arguments.back().number, type.text());
  }
  if (!list.empty()) line("^bb0(" + list + "):");
  op("stablehlo.return", region.body(arguments), {});
  known_.pop_back();
  depth_ -= 2;
}

template <class Make> Ssa Writer::once(const std::string& key, Make make) {
  const auto found = known_.back().find(key);
  if (found != known_.back().end()) return found->second;
  const Ssa made = make();
  known_.back().emplace(key, made);
  return made;
}

Ssa Writer::splat(const Type& type, uint64_t bits) {
  const std::string content = type.shape.count() == 0 ? "" : element_text(type.element, bits);
  const std::string value = fmt::format("value = dense<{}> : {}", content, type.text());
  return once(value, [&] { return op1("stablehlo.constant", {}, type, value); });
}

Ssa Writer::number(const Type& type, double value) {
  return splat(type, bits_of(type.element, value));
}

Ssa Writer::constant(const Tensor& literal) {
  const Type type{element_of(literal.dtype()), literal.shape()};
  const int64_t count = literal.count();
  const uint64_t first = count == 0 ? 0 : element_bits(literal, 0);
  bool same = true;
  for (int64_t i = 1; i < count && same; ++i) same = element_bits(literal, i) == first;
  if (same) return splat(type, first);
  return op1("stablehlo.constant", {}, type,
             fmt::format("value = dense<\"{}\"> : {}", hex_text(literal), type.text()));
}

Ssa Writer::replica() {
  return once("replica_id", [&] {
    return op1("stablehlo.replica_id", {}, Type{Element::ui32, Shape{}});
  });
}

Ssa Writer::argument(const Type& type) {
  return fresh(type);
}

void Writer::end_function(const Ssas& results) {
  op("func.return", results, {});
}

} // namespace dllm::pjrt::hlo
