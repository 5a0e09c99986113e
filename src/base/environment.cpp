#include "base/environment.h"

#include <cstdlib>

namespace dllm {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string first_variable(const char* one, const char* other, const std::string& usual) {
  std::string value = variable(one);
  if (value.empty()) value = variable(other);
  return value.empty() ? usual : value;
}

} // namespace dllm
