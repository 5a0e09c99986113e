#pragma once
// A build of the library that is opened next to another build in one process.

#include "dllm/dllm.h"

#include <dlfcn.h>

#include <stdexcept>
#include <string>

// One library, its functions found by name: the two hold the same symbols.
class Library {
public:
  explicit Library(const char* path) : handle_(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw std::runtime_error(dlerror());
    error_ = function<decltype(dllm_error_new)>("dllm_error_new")();
  }

  template <typename F> F* function(const char* name) const {
    void* found = dlsym(handle_, name);
    if (found == nullptr) throw std::runtime_error(std::string("no function ") + name);
    return reinterpret_cast<F*>(found);
  }
  dllm_error* error() const { return error_; }
  void check(dllm_status status, const char* name) const {
    if (status != 0)
      throw std::runtime_error(
          std::string(name) + ": " +
          function<decltype(dllm_error_message)>("dllm_error_message")(error_));
  }

private:
  void* handle_;
  dllm_error* error_ = nullptr;
};

// Calls a function of the library, with the error as its last argument.
#define CALL(name, ...)                                                                            \
  library_.check(library_.function<decltype(name)>(#name)(__VA_ARGS__, library_.error()), #name)
