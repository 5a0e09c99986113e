#include "call.h"

#include <cstdlib>

namespace sweep {
namespace {

ffi_type* param_type(const Param& param) {
  if (param.pointer) return &ffi_type_pointer;
  if (param.kind == "i32") return &ffi_type_sint32;
  if (param.kind == "f64") return &ffi_type_double;
  return &ffi_type_sint64;
}

ffi_type* result_type(const std::string& kind) {
  if (kind == "void") return &ffi_type_void;
  if (kind == "status" || kind == "i32") return &ffi_type_sint32;
  if (kind == "i64") return &ffi_type_sint64;
  if (kind == "f64") return &ffi_type_double;
  return &ffi_type_pointer;
}

} // namespace

Call::Call(const Function& function, void* symbol) : function_(function), symbol_(symbol) {
  for (const Param& param : function.params) types_.push_back(param_type(param));
  if (ffi_prep_cif(&cif_, FFI_DEFAULT_ABI, static_cast<unsigned>(types_.size()),
                   result_type(function.result), types_.data()) != FFI_OK) {
    std::abort();
  }
}

Value Call::operator()(std::vector<Value>& arguments) {
  std::vector<void*> pointers;
  for (Value& value : arguments) pointers.push_back(&value);
  Value result{};
  ffi_call(&cif_, FFI_FN(symbol_), &result, pointers.data());
  // libffi widens what is narrower than a register; the low half is the number.
  if (function_.result == "status" || function_.result == "i32") {
    result.i64 = static_cast<int32_t>(result.i64);
  }
  return result;
}

} // namespace sweep
