#pragma once
// The C interface of PJRT plugins, written from its description: what the structs below have in
// common. Layouts are those of API 0.114 on 64-bit systems (0.115 and 0.116 have the same); older
// plugins read a shorter part of them. Everything is zeroed before use, a field left zero means the
// default. layout.cpp pins sizes and offsets.

#include <cstddef>
#include <cstdint>

namespace dllm::pjrt::abi {

// Objects of the plugin; only their addresses are used here.
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

using Unused = void (*)(); // a function this library never calls

struct ExtensionBase {
  size_t struct_size; // of the whole derived struct
  int32_t type;       // unknown ones are skipped
  ExtensionBase* next;
};

// What most structs begin with. struct_size ends at the last field: padding behind it is not
// counted.
struct Head {
  size_t struct_size;
  ExtensionBase* extension_start;
};

struct ApiVersion {
  Head head;
  int32_t major;
  int32_t minor;
};

// The number that goes into struct_size, and the function a struct of arguments belongs to.
template <class T> inline constexpr size_t kSize = 0;
template <class T> inline constexpr const char* kFunction = "";

#define DLLM_PJRT_STRUCT(type, function, last)                                                     \
  template <> inline constexpr size_t kSize<type> = offsetof(type, last) + sizeof(type::last);     \
  template <> inline constexpr const char* kFunction<type> = function

// The numbers of dllm::Code, 0 to 16.
using ErrorCode = int32_t;

enum class NamedValueType : int32_t { string = 0, i64 = 1, i64_list = 2, f32 = 3, boolean = 4 };

// Not the numbers of XLA's own PrimitiveType.
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

// Until when the host's memory is read. With the last two the buffer shares it: their event fires when
// the buffer is released.
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
  size_t value_size; // length of the string, elements of the list, 1 for a scalar
};
DLLM_PJRT_STRUCT(NamedValue, "PJRT_NamedValue", value_size);

} // namespace dllm::pjrt::abi
