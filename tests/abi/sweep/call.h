#pragma once
// Calls any function of the manifest with any arguments, through libffi.

#include "manifest.h"

#include <ffi.h>

namespace sweep {

// The widest of what a parameter or a result can be.
union Value {
  void* pointer;
  int64_t i64;
  int32_t i32;
  double f64;
};

class Call {
public:
  Call(const Function& function, void* symbol);
  // i32 and status results come back widened in i64.
  Value operator()(std::vector<Value>& arguments);

private:
  const Function& function_;
  void* symbol_;
  std::vector<ffi_type*> types_;
  ffi_cif cif_;
};

} // namespace sweep
