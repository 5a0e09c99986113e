#pragma once
// Writes operations in MLIR's generic form, one a line, and numbers their results. No number is
// used twice in a module: a name inside a region may not repeat one of an enclosing region.

#include "pjrt/emit/types.h"
#include "tensor/tensor.h"

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::pjrt::hlo {

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
