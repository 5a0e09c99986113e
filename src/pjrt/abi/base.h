#pragma once
// This folder declares the C interface of PJRT plugins, written from its description; this header
// has the common types. The layouts belong to API 0.114 to 0.116 on 64-bit systems. An older plugin
// reads a shorter part of a struct. Every struct is zeroed before use, and 0 in a field means the
// default. layout.cpp checks sizes and offsets.

#include <cstddef>
#include <cstdint>

namespace dllm::pjrt::abi {

// Objects of the plugin. This library uses only their addresses.
struct AsyncTrackingEvent;
struct Buffer;
struct Client;
struct Device;
struct DeviceDescription;
struct Error;
struct Event;
struct Executable;
struct LoadedExecutable;
struct Memory;
struct TopologyDescription;

using Unused = void (*)(); // a function that this library never calls

struct ExtensionBase {
  size_t struct_size; // bytes of the whole derived struct
  int32_t type;       // extensions of an unknown type are skipped
  ExtensionBase* next;
};

// The first field of most structs. struct_size counts the bytes up to the end of the last field,
// without padding after it.
struct Head {
  size_t struct_size;
  ExtensionBase* extension_start;
};

struct ApiVersion {
  Head head;
  int32_t major;
  int32_t minor;
};

// The value of struct_size of a type, and the name of the function that takes it.
template <class T> inline constexpr size_t kSize = 0;
template <class T> inline constexpr const char* kFunction = "";

#define DLLM_PJRT_STRUCT(type, function, last)                                                     \
  template <> inline constexpr size_t kSize<type> = offsetof(type, last) + sizeof(type::last);     \
  template <> inline constexpr const char* kFunction<type> = function

// A code has the number of dllm::Code, 0 to 16.
using ErrorCode = int32_t;

enum class NamedValueType : int32_t { string = 0, i64 = 1, i64_list = 2, f32 = 3, boolean = 4 };

// Element types. XLA's own PrimitiveType has other numbers.
enum class BufferType : int32_t {
  invalid = 0,
  pred = 1,
  s8 = 2,
  s16 = 3,
  s32 = 4,
  s64 = 5,
  u8 = 6,
  u16 = 7,
  u32 = 8,
  u64 = 9,
  f16 = 10,
  f32 = 11,
  f64 = 12,
  bf16 = 13,
};

// How long the plugin reads the host's memory. With the last two the buffer shares the memory, and
// done_with_host_buffer happens when the buffer is released.
enum class HostBufferSemantics : int32_t {
  during_call = 0,
  until_transfer_completes = 1,
  zero_copy = 2,
  mutable_zero_copy = 3,
};

enum class BufferMemoryLayoutType : int32_t { tiled = 0, strides = 1 };

struct NamedValue {
  Head head;
  const char* name;
  size_t name_size;
  NamedValueType type;
  union {
    const char* string_value;
    int64_t int64_value;
    const int64_t* int64_array_value;
    float float_value;
    bool bool_value;
  };
  size_t value_size; // length of the string, number of list elements, or 1 for a scalar
};
DLLM_PJRT_STRUCT(NamedValue, "PJRT_NamedValue", value_size);

} // namespace dllm::pjrt::abi
