#pragma once
// The exception wall: nothing thrown inside leaves the library.

#include "base/error.h"
#include "dllm/base.h"
#include "handle.h"

#include <new>
#include <string>

struct dllm_error : dllm::abi::Handle<dllm::abi::Kind::error> {
  dllm_status code = DLLM_OK;
  std::string message;
  std::string hint;
};

namespace dllm::abi {

// Writes a failure into `err` (may be null or garbage) and returns the status.
dllm_status put(dllm_error* err, Code code, const char* message, const char* hint) noexcept;

template <class F> dllm_status guard(dllm_error* err, F&& f) noexcept {
  const CallScope scope;
  try {
    f();
    return DLLM_OK;
  } catch (const Error& e) {
    return put(err, e.code(), e.text().c_str(), e.hint().c_str());
  } catch (const std::bad_alloc&) {
    return put(err, Code::resource_exhausted, "out of memory", "");
  } catch (const std::exception& e) {
    return put(err, Code::internal, e.what(), "");
  } catch (...) {
    return put(err, Code::unknown, "unknown failure", "");
  }
}

// For functions without a status: `otherwise` when anything fails.
template <class T, class F> T guard_value(T otherwise, F&& f) noexcept {
  const CallScope scope;
  try {
    return f();
  } catch (...) {
    return otherwise;
  }
}

} // namespace dllm::abi
