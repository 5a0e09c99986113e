#pragma once
// Types, values and lines of StableHLO text.

#include "tensor/dtype.h"
#include "tensor/tensor.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
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

// A nested block: its arguments, and what it returns given them. Values of the enclosing regions
// may be used inside those of `while`, but not inside the small functions of reduce, sort, scatter.
struct Region {
  std::vector<Type> arguments;
  std::function<Ssas(const Ssas&)> body;
};

class Writer {
public:
  Ssas op(std::string_view name, const Ssas& operands, const std::vector<Type>& results,
          const std::string& attributes = {}, const std::vector<Region>& regions = {});
  Ssa op1(std::string_view name, const Ssas& operands, const Type& result,
          const std::string& attributes = {}, const std::vector<Region>& regions = {});

  // The same number everywhere, from the bit pattern of one element. Written once per region.
  Ssa splat(const Type& type, uint64_t bits);
  Ssa number(const Type& type, double value); // as the element type rounds it
  Ssa constant(const Tensor& literal);
  // This replica's number, ui32(). Written once per region.
  Ssa replica();

  // A function's arguments and its end.
  Ssa argument(const Type& type);
  void end_function(const Ssas& results);

  std::string take_text() { return std::move(text_); }

private:
  Ssa fresh(const Type& type) { return {next_++, type}; }
  void line(const std::string& line); // at the current depth
  void region(const Region& region);
  template <class Make> Ssa once(const std::string& key, Make make);

  std::string text_;
  int64_t next_ = 0;
  int depth_ = 4; // inside a module and a function
  // What is written once per region: a captured constant would be carried by the loop.
  std::vector<std::map<std::string, Ssa>> known_{1};
};

} // namespace dllm::pjrt::hlo
