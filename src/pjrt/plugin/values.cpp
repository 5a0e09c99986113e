// Converts named values and element types to and from the structs and numbers of plugins.

#include "pjrt/plugin/plugin.h"

#include "base/error.h"
#include "base/named_table.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace dllm::pjrt {

namespace {

template <class... Cases> struct Match : Cases... { using Cases::operator()...; };
template <class... Cases> Match(Cases...) -> Match<Cases...>;

abi::NamedValue value_view(const std::string& name, const NamedValue& value) {
  abi::NamedValue views{};
  views.head.struct_size = abi::kSize<abi::NamedValue>;
  views.name = name.data();
  views.name_size = name.size();
  views.value_size = 1;
  std::visit(Match{[&](const std::string& text) {
                     views.type = abi::NamedValueType::string;
                     views.string_value = text.data();
                     views.value_size = text.size();
                   },
                   [&](int64_t number) {
                     views.type = abi::NamedValueType::i64;
                     views.int64_value = number;
                   },
                   [&](const std::vector<int64_t>& list) {
                     views.type = abi::NamedValueType::i64_list;
                     views.int64_array_value = list.data();
                     views.value_size = list.size();
                   },
                   [&](float number) {
                     views.type = abi::NamedValueType::f32;
                     views.float_value = number;
                   },
                   [&](bool flag) {
                     views.type = abi::NamedValueType::boolean;
                     views.bool_value = flag;
                   }},
             value);
  return views;
}

} // namespace

NamedValues read_named_values(const abi::NamedValue* values, size_t count) {
  NamedValues read;
  for (size_t i = 0; i < count; ++i) {
    const abi::NamedValue& v = values[i];
    NamedValue& slot = read[std::string(v.name, v.name_size)];
    switch (v.type) {
    case abi::NamedValueType::string: slot = std::string(v.string_value, v.value_size); break;
    case abi::NamedValueType::i64: slot = v.int64_value; break;
    case abi::NamedValueType::i64_list:
      slot = std::vector<int64_t>(v.int64_array_value, v.int64_array_value + v.value_size);
      break;
    case abi::NamedValueType::f32: slot = v.float_value; break;
    case abi::NamedValueType::boolean: slot = v.bool_value; break;
    default: read.erase(std::string(v.name, v.name_size));
    }
  }
  return read;
}

std::vector<abi::NamedValue> named_value_views(const NamedValues& values) {
  std::vector<abi::NamedValue> views;
  for (const auto& [name, value] : values) views.push_back(value_view(name, value));
  return views;
}

std::string value_text(const NamedValue& value) {
  return std::visit(Match{[](const std::string& text) { return text; },
                          [](bool flag) { return std::string(flag ? "true" : "false"); },
                          [](const auto& other) { return fmt::format("{}", other); }},
                    value);
}

namespace {

struct KnownOption {
  const char* name;
  const char* type;
  const char* data() const { return name; } // for nearest()
};

constexpr std::array kKnown{
    // cpu
    KnownOption{"cpu_device_count", "i64"}, KnownOption{"asynchronous", "bool"},
    KnownOption{"process_id", "i64"},
    // cuda
    KnownOption{"platform_name", "string"}, KnownOption{"allocator", "string"},
    KnownOption{"memory_fraction", "f32"}, KnownOption{"preallocate", "bool"},
    KnownOption{"collective_memory_size", "i64"}, KnownOption{"visible_devices", "list"},
    KnownOption{"node_id", "i64"}, KnownOption{"num_nodes", "i64"},
    KnownOption{"should_stage_host_to_device_transfers", "bool"},
    KnownOption{"abort_collectives_on_failure", "bool"}, KnownOption{"use_tfrt_gpu_client", "bool"},
    KnownOption{"enable_mock_nccl", "bool"}, KnownOption{"mock_gpu_topology", "string"},
    KnownOption{"partition_index", "i64"},
    // tpu and cuda
    KnownOption{"max_inflight_computations", "i64"}, KnownOption{"ml_framework_name", "string"},
    KnownOption{"ml_framework_version", "string"}};

template <class T> T number_of(std::string_view text, const std::string& whole) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty())
    fail(Code::invalid_argument, "client option {}: {} is not a number", whole, text);
  return value;
}

bool flag_of(std::string_view text, const std::string& whole) {
  if (text == "true" || text == "1") return true;
  if (text == "false" || text == "0") return false;
  fail(Code::invalid_argument, "client option {}: {} is neither true nor false", whole, text);
}

std::vector<int64_t> list_of(std::string_view text, const std::string& whole) {
  std::vector<int64_t> list;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(':', begin), text.size());
    list.push_back(number_of<int64_t>(text.substr(begin, end - begin), whole));
    begin = end + 1;
  }
  return list;
}

NamedValue value_of(std::string_view type, std::string_view text, const std::string& whole) {
  if (type == "i64") return number_of<int64_t>(text, whole);
  if (type == "f32") return number_of<float>(text, whole);
  if (type == "bool") return flag_of(text, whole);
  if (type == "list") return list_of(text, whole);
  if (type == "string") return std::string(text);
  fail_with_hint("types are string, i64, list, f32, bool", Code::invalid_argument,
                 "client option {}: {} is not a type", whole, type);
}

std::string_view known_type(const std::string& name) {
  const std::string advice = "an option of a newer plugin needs its type: " + name + ":i64=1";
  return need_named(kKnown, name, &KnownOption::name, {"client option", "", advice}).type;
}

} // namespace

NamedValues parse_client_options(const std::vector<std::string>& texts) {
  NamedValues parsed;
  for (const std::string& text : texts) {
    const size_t sign = text.find('=');
    if (sign == std::string::npos || sign == 0)
      fail(Code::invalid_argument, "client option {} is not name=value", text);
    const std::string left = text.substr(0, sign);
    const size_t colon = left.find(':');
    const std::string name = left.substr(0, colon);
    const std::string type =
        colon == std::string::npos ? std::string(known_type(name)) : left.substr(colon + 1);
    parsed[name] = value_of(type, std::string_view(text).substr(sign + 1), text);
  }
  return parsed;
}

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
