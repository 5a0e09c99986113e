#include "text/jinja/json_values.h"

#include "base/error.h"

#include <nlohmann/json.hpp>

namespace dllm::text::jinja {

Value from_json(const Json& json, Mark mark) {
  switch (json.type()) {
  case Json::value_t::boolean: return Value(json.get<bool>());
  case Json::value_t::number_integer: return Value(json.get<int64_t>());
  case Json::value_t::number_unsigned: {
    const auto value = json.get<uint64_t>();
    return value > INT64_MAX ? Value(static_cast<double>(value))
                             : Value(static_cast<int64_t>(value));
  }
  case Json::value_t::number_float: return Value(json.get<double>());
  case Json::value_t::string: return Value(MarkedText(json.get<std::string>(), mark));
  case Json::value_t::array: {
    Items items;
    for (const Json& item : json) items.push_back(from_json(item, mark));
    return Value::list(std::move(items));
  }
  case Json::value_t::object: {
    Entries entries;
    for (const auto& [key, value] : json.items()) {
      entries.emplace_back(Value(MarkedText(key, mark)), from_json(value, mark));
    }
    return Value::map(std::move(entries));
  }
  default: return Value::none();
  }
}

Value from_messages(const Json& messages) {
  if (!messages.is_array()) {
    fail(Code::invalid_argument, "messages must be a list, found {}", messages.type_name());
  }
  Items items;
  for (const Json& message : messages) {
    const auto index = static_cast<int32_t>(items.size());
    const auto role = message.is_object() ? message.find("role") : message.end();
    if (!message.is_object() || role == message.end() || !role->is_string()) {
      fail_with_hint("a message is {\"role\": \"user\", \"content\": \"...\"}",
                     Code::invalid_argument, "message {} has no role", index);
    }
    Entries entries;
    for (const auto& [key, value] : message.items()) {
      const Mark mark{key == "role" ? Mark::kData : index, false};
      // Names of members belong to no role, but stay untrusted.
      entries.emplace_back(Value(MarkedText(key, {Mark::kData, false})), from_json(value, mark));
    }
    items.push_back(Value::map(std::move(entries)));
  }
  return Value::list(std::move(items));
}

} // namespace dllm::text::jinja
