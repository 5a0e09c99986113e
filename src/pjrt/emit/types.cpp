#include "pjrt/emit/types.h"

#include "base/error.h"

#include <fmt/format.h>

namespace dllm::pjrt::hlo {

Element element_of(DType dtype) {
  switch (dtype) {
  case DType::f32: return Element::f32;
  case DType::bf16: return Element::bf16;
  case DType::i32: return Element::i32;
  case DType::u32: return Element::ui32;
  case DType::u8: return Element::ui8;
  case DType::i8: return Element::i8;
  default: fail(Code::internal, "{} is no type of a graph", dtype_name(dtype));
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

} // namespace dllm::pjrt::hlo
