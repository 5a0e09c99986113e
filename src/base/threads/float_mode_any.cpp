#include "base/threads/float_mode.h"

namespace dllm {

FloatMode::FloatMode() noexcept {
  std::fegetenv(&saved_);
  std::fesetenv(FE_DFL_ENV);
}

FloatMode::~FloatMode() {
  std::fesetenv(&saved_);
}

} // namespace dllm
