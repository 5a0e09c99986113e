#include "text/json_reader.h"

#include "base/error.h"

namespace dllm::text {

namespace {

constexpr int kMaxDepth = 64;

void check_depth(std::string_view text, std::string_view what) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxDepth)
        fail(Code::data_loss, "{} is nested deeper than {}", what, kMaxDepth);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
}

[[noreturn]] void wrong_type(const TreeJson& value, const char* key, const std::string& where,
                             const char* expected) {
  fail(Code::data_loss, "{}: \"{}\" must be {}, found {}", where, key, expected, value.type_name());
}

} // namespace

TreeJson parse_tree(std::string_view text, std::string_view what) {
  check_depth(text, what);
  try {
    return TreeJson::parse(text.begin(), text.end());
  } catch (const nlohmann::json::parse_error& e) {
    fail(Code::data_loss, "{} is not valid JSON near byte {}", what, e.byte);
  } catch (const nlohmann::json::exception& e) {
    fail(Code::data_loss, "{} is not valid JSON: {}", what, e.what());
  }
}

const TreeJson* find_member(const TreeJson& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string string_member(const TreeJson& object, const char* key, const std::string& where) {
  const TreeJson* value = find_member(object, key);
  if (value == nullptr) fail(Code::data_loss, "{}: \"{}\" is missing", where, key);
  if (!value->is_string()) wrong_type(*value, key, where, "a string");
  return value->get<std::string>();
}

std::string string_member(const TreeJson& object, const char* key, const std::string& where,
                          const std::string& fallback) {
  return find_member(object, key) == nullptr ? fallback : string_member(object, key, where);
}

bool bool_member(const TreeJson& object, const char* key, const std::string& where, bool fallback) {
  const TreeJson* value = find_member(object, key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) wrong_type(*value, key, where, "true or false");
  return value->get<bool>();
}

int64_t int_member(const TreeJson& object, const char* key, const std::string& where,
                   int64_t fallback) {
  const TreeJson* value = find_member(object, key);
  if (value == nullptr) return fallback;
  if (!value->is_number_integer()) wrong_type(*value, key, where, "an integer");
  if (value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
    fail(Code::data_loss, "{}: \"{}\" = {} is too large", where, key, value->get<uint64_t>());
  }
  return value->get<int64_t>();
}

const TreeJson& array_member(const TreeJson& object, const char* key, const std::string& where) {
  const TreeJson* value = find_member(object, key);
  if (value == nullptr) fail(Code::data_loss, "{}: \"{}\" is missing", where, key);
  if (!value->is_array()) wrong_type(*value, key, where, "an array");
  return *value;
}

std::string json_string(std::string_view text) {
  return TreeJson(text).dump(-1, ' ', false, TreeJson::error_handler_t::replace);
}

std::string type_of(const TreeJson& object, const std::string& where) {
  if (!object.is_object())
    fail(Code::data_loss, "{} must be an object, found {}", where, object.type_name());
  return string_member(object, "type", where);
}

} // namespace dllm::text
