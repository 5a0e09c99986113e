#pragma once
// Good values for every parameter of any function.

#include "call.h"
#include "objects.h"

#include <deque>
#include <vector>

namespace sweep {

class Fixtures : public Objects {
public:
  using Objects::Objects;

  // Good arguments for a call; out parameters point at fresh cells that hold kUntouched.
  std::vector<Value> arguments(const Function& function);
  // The cell behind an out parameter of the last arguments().
  int64_t cell(size_t param) const { return cells_.at(param); }

  static constexpr int64_t kUntouched = 0x5A5A5A5A5A5A5A5A;

private:
  Value argument(const Function& function, size_t index);
  Value number(const Function& function, const Param& param) const;

  std::deque<int64_t> cells_;
};

} // namespace sweep
