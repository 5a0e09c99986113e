#include "model/config_reader.h"

#include "base/error.h"

#include <nlohmann/json.hpp>

#include <cmath>

namespace dllm::model {
namespace {

// A value of a hostile file may be large: what an error shows of it.
std::string shown(const Json& value) {
  constexpr size_t kLongest = 60;
  const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
}

} // namespace

ConfigReader::ConfigReader(const Json& object, std::string file)
    : object_(object), file_(std::move(file)) {
  if (!object_.is_object())
    fail(Code::invalid_argument, "{}: expected a JSON object, found {}", file_, shown(object_));
}

bool ConfigReader::has(const char* key) const {
  const auto found = object_.find(key);
  return found != object_.end() && !found->is_null();
}

void ConfigReader::bad(const char* key, const std::string& expected) const {
  const auto found = object_.find(key);
  if (found == object_.end())
    fail(Code::invalid_argument, "{}: {}{} is missing, expected {}", file_, path_, key, expected);
  fail(Code::invalid_argument, "{}: {}{} is {}, expected {}", file_, path_, key, shown(*found),
       expected);
}

int64_t ConfigReader::integer(const char* key, int64_t low, int64_t high) const {
  const std::string expected = fmt::format("an integer from {} to {}", low, high);
  if (!has(key)) bad(key, expected);
  const Json& value = object_.at(key);
  if (value.is_number_unsigned()) {
    if (value.get<uint64_t>() > static_cast<uint64_t>(high)) bad(key, expected);
  } else if (!value.is_number_integer()) {
    bad(key, expected);
  }
  const auto number = value.get<int64_t>();
  if (number < low || number > high) bad(key, expected);
  return number;
}

int64_t ConfigReader::integer(const char* key, int64_t low, int64_t high, int64_t otherwise) const {
  return has(key) ? integer(key, low, high) : otherwise;
}

double ConfigReader::number(const char* key, double low, double high, double otherwise) const {
  if (!has(key)) return otherwise;
  const std::string expected = fmt::format("a number from {} to {}", low, high);
  if (!object_.at(key).is_number()) bad(key, expected);
  const auto value = object_.at(key).get<double>();
  if (!(value >= low && value <= high)) bad(key, expected);
  return value;
}

bool ConfigReader::flag(const char* key, bool otherwise) const {
  if (!has(key)) return otherwise;
  if (!object_.at(key).is_boolean()) bad(key, "true or false");
  return object_.at(key).get<bool>();
}

std::string ConfigReader::text(const char* key, const std::string& otherwise) const {
  if (!has(key)) return otherwise;
  if (!object_.at(key).is_string()) bad(key, "a string");
  return object_.at(key).get<std::string>();
}

ConfigReader ConfigReader::child(const char* key) const {
  if (!has(key) || !object_.at(key).is_object()) bad(key, "an object");
  ConfigReader made(object_.at(key), file_);
  made.path_ = path_ + key + ".";
  return made;
}

void ConfigReader::require_flag(const char* key, bool wanted) const {
  if (flag(key, wanted) != wanted) {
    fail(Code::unimplemented, "{}: {}{} = {} is not supported yet", file_, path_, key, !wanted);
  }
}

void ConfigReader::require_text(const char* key, std::initializer_list<const char*> wanted) const {
  if (!has(key)) return;
  const std::string found = text(key, "");
  for (const char* name : wanted) {
    if (found == name) return;
  }
  fail(Code::unimplemented, "{}: {}{} = {} is not supported yet", file_, path_, key,
       shown(object_.at(key)));
}

} // namespace dllm::model
