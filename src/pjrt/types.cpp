#include "pjrt/types.h"

#include "base/error.h"

#include <array>
#include <utility>

namespace dllm::pjrt {
namespace {

constexpr std::array<std::pair<DType, abi::BufferType>, 9> kTypes{{
    {DType::f32, abi::BufferType::f32},
    {DType::f16, abi::BufferType::f16},
    {DType::bf16, abi::BufferType::bf16},
    {DType::f64, abi::BufferType::f64},
    {DType::i32, abi::BufferType::s32},
    {DType::i64, abi::BufferType::s64},
    {DType::u8, abi::BufferType::u8},
    {DType::i8, abi::BufferType::s8},
    {DType::u32, abi::BufferType::u32},
}};

} // namespace

abi::BufferType buffer_type(DType dtype) {
  for (const auto& [ours, theirs] : kTypes) {
    if (ours == dtype) return theirs;
  }
  fail(Code::unimplemented, "no plugin has arrays of {}", dtype_name(dtype));
}

DType dtype_of(abi::BufferType type) {
  for (const auto& [ours, theirs] : kTypes) {
    if (theirs == type) return ours;
  }
  fail(Code::unimplemented, "element type {} of a plugin is not known here",
       static_cast<int32_t>(type));
}

} // namespace dllm::pjrt
