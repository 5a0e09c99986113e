#pragma once
// Types and values of StableHLO text.

#include "tensor/dtype.h"
#include "tensor/tensor.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dllm::pjrt::hlo {

// i1 is what comparisons give; graphs have u8 in its place.
enum class Element : uint8_t { i1, ui8, i8, i32, ui32, ui64, bf16, f32 };

Element element_of(DType dtype); // fails with internal for types graphs do not compute with
const char* element_name(Element element);
int64_t element_size(Element element);
bool is_signed(Element element); // of integers
bool is_floating(Element element);

struct Type {
  Element element = Element::f32;
  Shape shape;

  std::string text() const; // "tensor<2x3xf32>"
  friend bool operator==(const Type&, const Type&) = default;
};

// One value in static single assignment form: %number.
struct Ssa {
  int64_t number = -1;
  Type type;

  bool defined() const { return number >= 0; }
  Element element() const { return type.element; }
  const Shape& shape() const { return type.shape; }
};

using Ssas = std::vector<Ssa>;

// Attributes as text.
std::string array_text(const std::vector<int64_t>& values); // "array<i64: 1, 2>"
std::string list_text(const std::vector<int64_t>& values);  // "[1, 2]"
// "dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>"; rows of equal length
std::string table_text(const std::vector<std::vector<int64_t>>& rows);

} // namespace dllm::pjrt::hlo
