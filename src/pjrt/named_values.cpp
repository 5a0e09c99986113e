#include "pjrt/named_values.h"

#include <fmt/ranges.h>

namespace dllm::pjrt {
namespace {

template <class... Cases> struct Match : Cases... { using Cases::operator()...; };
template <class... Cases> Match(Cases...) -> Match<Cases...>;

abi::NamedValue lend(const std::string& name, const NamedValue& value) {
  abi::NamedValue lent{};
  lent.head.struct_size = abi::kSize<abi::NamedValue>;
  lent.name = name.data();
  lent.name_size = name.size();
  lent.value_size = 1;
  std::visit(Match{[&](const std::string& text) {
                     lent.type = abi::NamedValueType::string;
                     lent.string_value = text.data();
                     lent.value_size = text.size();
                   },
                   [&](int64_t number) {
                     lent.type = abi::NamedValueType::i64;
                     lent.int64_value = number;
                   },
                   [&](const std::vector<int64_t>& list) {
                     lent.type = abi::NamedValueType::i64_list;
                     lent.int64_array_value = list.data();
                     lent.value_size = list.size();
                   },
                   [&](float number) {
                     lent.type = abi::NamedValueType::f32;
                     lent.float_value = number;
                   },
                   [&](bool flag) {
                     lent.type = abi::NamedValueType::boolean;
                     lent.bool_value = flag;
                   }},
             value);
  return lent;
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

std::vector<abi::NamedValue> lend_named_values(const NamedValues& values) {
  std::vector<abi::NamedValue> lent;
  for (const auto& [name, value] : values) lent.push_back(lend(name, value));
  return lent;
}

std::string value_text(const NamedValue& value) {
  return std::visit(Match{[](const std::string& text) { return text; },
                          [](bool flag) { return std::string(flag ? "true" : "false"); },
                          [](const auto& other) { return fmt::format("{}", other); }},
                    value);
}

} // namespace dllm::pjrt
