#include "noise/objective_state.h"

#include "base/error.h"

namespace dllm::noise {

void check_state(const std::string& name, const StateArrays& state, const StateArrays& expected) {
  for (const auto& [key, array] : expected) {
    const auto found = state.find(key);
    if (found == state.end()) {
      fail(Code::failed_precondition, "the state of objective {} lacks the array {}", name, key);
    }
    if (found->second.shape() != array.shape() || found->second.dtype() != DType::f32) {
      fail(Code::failed_precondition, "array {} of objective {} is {}{}, expected f32{}", key, name,
           dtype_name(found->second.dtype()), found->second.shape().text(), array.shape().text());
    }
  }
  for (const auto& [key, array] : state) {
    if (expected.contains(key)) continue;
    fail(Code::failed_precondition,
         "the state of objective {} has an array {} that it does not use", name, key);
  }
}

} // namespace dllm::noise
