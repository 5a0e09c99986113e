#include "base/options.h"

#include "base/error.h"
#include "base/named_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace dllm {
namespace {

const char* type_name(OptionType type) {
  switch (type) {
  case OptionType::boolean: return "bool";
  case OptionType::i64: return "i64";
  case OptionType::f64: return "f64";
  case OptionType::str: return "str";
  case OptionType::list: return "list";
  }
  return "?";
}

Json value_json(const OptionValue& value) {
  return std::visit(
      [](const auto& v) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::monostate>)
          return nullptr;
        else
          return v;
      },
      value);
}

const char* spoken_name(const OptionSpec& spec) {
  switch (spec.type) {
  case OptionType::boolean: return "true or false";
  case OptionType::i64: return "a whole number";
  case OptionType::f64: return "a number";
  case OptionType::str: return "a text";
  case OptionType::list:
    return spec.list_of == ListOf::token_ids ? "a list of token ids" : "a list of texts";
  }
  return "?";
}

[[noreturn]] void fail_type(const OptionSpec& spec, std::string_view got) {
  fail(Code::invalid_argument, "option {} takes {}, not {}", spec.key, spoken_name(spec), got);
}

void check_number(const OptionSpec& spec, double number) {
  if (std::isnan(number)) fail(Code::invalid_argument, "option {} must not be NaN", spec.key);
  if (!spec.bounded || (number >= spec.min && number <= spec.max)) return;
  fail_with_hint(fmt::format("{} takes {} to {}", spec.key, spec.min, spec.max),
                 Code::invalid_argument, "option {} = {} is out of bounds", spec.key, number);
}

void check_choice(const OptionSpec& spec, const std::string& text) {
  if (spec.choices.empty()) return;
  for (const std::string& choice : spec.choices) {
    if (choice == text) return;
  }
  fail_with_hint(fmt::format("{} is one of: {}", spec.key, fmt::join(spec.choices, ", ")),
                 Code::invalid_argument, "option {} has no choice \"{}\"", spec.key, text);
}

OptionValue from_number(const OptionSpec& spec, double number, bool whole) {
  switch (spec.type) {
  case OptionType::boolean:
    if (whole && (number == 0 || number == 1)) return number == 1;
    fail_type(spec, fmt::format("{}", number));
  case OptionType::i64:
    if (!whole) fail_type(spec, fmt::format("{}", number));
    check_number(spec, number);
    return static_cast<int64_t>(number);
  case OptionType::f64: check_number(spec, number); return number;
  default: fail_type(spec, "a number");
  }
}

std::string shown(const Json& json) {
  return json.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 40);
}

// Returns an element of a list as the text that options keep.
std::string element_of(const OptionSpec& spec, size_t index, const Json& json) {
  std::string text = json.is_string() ? json.get<std::string>() : json.dump();
  switch (spec.list_of) {
  case ListOf::token_ids:
    // A text is compared with the vocabulary where it is used.
    if (json.is_string() || (json.is_number_integer() && json.get<double>() >= 0)) return text;
    fail_with_hint(fmt::format("{} takes whole numbers from 0, such as [2, 7]", spec.key),
                   Code::invalid_argument, "option {}[{}] is {}, not a token id", spec.key, index,
                   shown(json));
  case ListOf::texts_and_numbers:
    if (json.is_number()) return text;
    [[fallthrough]];
  case ListOf::texts: break;
  }
  if (json.is_string()) return text;
  fail_with_hint(json.is_number() ? fmt::format("write \"{}\"", text) : "write it in quotes",
                 Code::invalid_argument, "option {}[{}] is {}, not a text", spec.key, index,
                 shown(json));
}

// Fails for one element where a list belongs.
[[noreturn]] void fail_alone(const OptionSpec& spec, const Json& json) {
  const bool fits = json.is_string() || spec.list_of != ListOf::texts;
  const std::string element = fits ? shown(json) : "\"" + shown(json) + "\"";
  fail_with_hint(element.size() < 40 ? fmt::format("write [{}]", element) : "write it in brackets",
                 Code::invalid_argument, "option {} takes {}, not {}", spec.key, spoken_name(spec),
                 json.is_string() ? "a text" : "a number");
}

OptionValue from_json(const OptionSpec& spec, const Json& json) {
  const bool is_alone = json.is_string() || json.is_number();
  if (spec.type == OptionType::list && is_alone) fail_alone(spec, json);
  if (spec.is_json && json.is_structured()) return json.dump();
  if (json.is_boolean() && spec.type == OptionType::boolean) return json.get<bool>();
  if (json.is_number_integer() && spec.type == OptionType::i64) {
    if (json.is_number_unsigned() && json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
      fail(Code::invalid_argument, "option {} = {} is above 9223372036854775807", spec.key,
           json.get<uint64_t>());
    }
    check_number(spec, json.get<double>());
    return json.get<int64_t>();
  }
  if (json.is_number()) {
    const double number = json.get<double>();
    return from_number(spec, number, number == std::floor(number) && std::abs(number) < 9e15);
  }
  if (json.is_string() && spec.type == OptionType::str) {
    check_choice(spec, json.get<std::string>());
    return json.get<std::string>();
  }
  if (json.is_array() && spec.type == OptionType::list) {
    std::vector<std::string> items;
    for (const Json& item : json) items.push_back(element_of(spec, items.size(), item));
    return items;
  }
  fail_type(spec, json.is_string()   ? "a text"
                  : json.is_array()  ? "a list"
                  : json.is_object() ? "an object"
                                     : shown(json));
}

} // namespace

OptionSpec option_bool(std::string key, bool value, std::string sentence) {
  return {std::move(key), OptionType::boolean, value, 0, 1, false, {}, std::move(sentence)};
}

OptionSpec option_i64(std::string key, int64_t value, int64_t min, int64_t max,
                      std::string sentence) {
  return {std::move(key),
          OptionType::i64,
          value,
          static_cast<double>(min),
          static_cast<double>(max),
          true,
          {},
          std::move(sentence)};
}

OptionSpec option_f64(std::string key, double value, double min, double max, std::string sentence) {
  return {std::move(key), OptionType::f64, value, min, max, true, {}, std::move(sentence)};
}

OptionSpec option_str(std::string key, std::string value, std::string sentence) {
  return {std::move(key), OptionType::str, std::move(value), 0, 0, false, {}, std::move(sentence)};
}

OptionSpec option_json(std::string key, std::string sentence) {
  OptionSpec spec = option_str(std::move(key), "", std::move(sentence));
  spec.is_json = true;
  return spec;
}

OptionSpec option_choice(std::string key, std::string value, std::vector<std::string> choices,
                         std::string sentence) {
  return {std::move(key), OptionType::str,    std::move(value),   0, 0,
          false,          std::move(choices), std::move(sentence)};
}

OptionSpec option_list(std::string key, std::vector<std::string> value, std::string sentence,
                       ListOf list_of) {
  OptionSpec spec{std::move(key),     OptionType::list, std::move(value), 0, 0, false, {},
                  std::move(sentence)};
  spec.list_of = list_of;
  return spec;
}

OptionSpec option_ids(std::string key, std::string sentence) {
  return option_list(std::move(key), {}, std::move(sentence), ListOf::token_ids);
}

Schema::Schema(std::string kind, std::vector<OptionSpec> specs)
    : kind_(std::move(kind)), specs_(std::move(specs)) {}

const OptionSpec& Schema::find(std::string_view key) const {
  return need_named(specs_, key, &OptionSpec::key, {"option", "of kind " + kind_});
}

Json Schema::to_json() const {
  Json keys = Json::array();
  for (const OptionSpec& spec : specs_) {
    Json row = {{"name", spec.key},
                {"type", type_name(spec.type)},
                {"default", value_json(spec.default_value)}};
    if (spec.type == OptionType::list)
      row["elem"] = spec.list_of == ListOf::token_ids ? "i64" : "str";
    if (spec.bounded) {
      row["min"] = spec.min;
      row["max"] = spec.max;
    }
    if (!spec.choices.empty()) row["choices"] = spec.choices;
    if (spec.is_json) row["json"] = true;
    if (!spec.group.empty()) row["group"] = spec.group;
    row["doc"] = spec.sentence;
    row["since"] = spec.since;
    keys.push_back(std::move(row));
  }
  return {{"kind", kind_}, {"keys", std::move(keys)}};
}

void Options::set(std::string_view key, OptionValue value) {
  values_.insert_or_assign(std::string(key), std::move(value));
}

void Options::set_i64(std::string_view key, int64_t value) {
  const OptionSpec& spec = schema_->find(key);
  if (spec.type == OptionType::i64) {
    check_number(spec, static_cast<double>(value));
    return set(key, value);
  }
  set(key, from_number(spec, static_cast<double>(value), true));
}

void Options::set_f64(std::string_view key, double value) {
  const OptionSpec& spec = schema_->find(key);
  if (spec.type != OptionType::f64) fail_type(spec, "a number with a fraction");
  set(key, from_number(spec, value, false));
}

void Options::set_str(std::string_view key, std::string_view value) {
  const OptionSpec& spec = schema_->find(key);
  if (spec.type != OptionType::str) fail_type(spec, "a text");
  check_choice(spec, std::string(value));
  set(key, std::string(value));
}

void Options::set_json(const Json& object) {
  if (!object.is_object()) {
    fail(Code::invalid_argument, "options of {} must be a JSON object", schema_->kind());
  }
  Options changed = *this;
  const auto walk = [&](const auto& self, const Json& node, const std::string& prefix) -> void {
    for (const auto& [name, value] : node.items()) {
      const std::string key = prefix + name;
      const bool is_group = std::ranges::any_of(schema_->specs(), [&](const OptionSpec& spec) {
        return spec.key.starts_with(key + ".");
      });
      if (value.is_object() && is_group)
        self(self, value, key + ".");
      else
        changed.set(key, from_json(schema_->find(key), value));
    }
  };
  walk(walk, object, "");
  *this = std::move(changed);
}

void Options::set_text(std::string_view key, std::string_view text) {
  const OptionSpec& spec = schema_->find(key);
  const std::string word(text);
  if (spec.type == OptionType::str) return set_str(key, text);
  if (spec.type == OptionType::list) {
    std::vector<std::string> items;
    for (size_t begin = 0; begin <= word.size() && !word.empty();) {
      const size_t end = std::min(word.find(',', begin), word.size());
      items.push_back(word.substr(begin, end - begin));
      begin = end + 1;
    }
    return set(key, items);
  }
  if (spec.type == OptionType::boolean) {
    const bool yes = word == "true" || word == "1" || word == "yes" || word == "on";
    const bool no = word == "false" || word == "0" || word == "no" || word == "off";
    if (!yes && !no) fail_type(spec, fmt::format("\"{}\"", word));
    return set(key, yes);
  }
  int64_t whole = 0;
  const char* end = word.data() + word.size();
  if (const auto r = std::from_chars(word.data(), end, whole);
      r.ec == std::errc() && r.ptr == end) {
    return set_i64(key, whole);
  }
  double number = 0;
  if (const auto r = std::from_chars(word.data(), end, number);
      r.ec != std::errc() || r.ptr != end) {
    fail_type(spec, fmt::format("\"{}\"", word));
  }
  set(key, from_number(spec, number, number == std::floor(number) && std::abs(number) < 9e15));
}

void Options::take_set(const Options& other) {
  Options changed = *this;
  for (const auto& [key, value] : other.values_)
    changed.set(key, from_json(schema_->find(key), value_json(value)));
  *this = std::move(changed);
}

bool Options::is_set(std::string_view key) const {
  schema_->find(key);
  return values_.find(key) != values_.end();
}

const OptionValue& Options::value(std::string_view key, OptionType type) const {
  const OptionSpec& spec = schema_->find(key);
  if (spec.type != type) {
    fail(Code::internal, "option {} is {}, read as {}", key, type_name(spec.type), type_name(type));
  }
  const auto found = values_.find(key);
  return found != values_.end() ? found->second : spec.default_value;
}

bool Options::boolean(std::string_view key) const {
  return std::get<bool>(value(key, OptionType::boolean));
}

int64_t Options::i64(std::string_view key) const {
  return std::get<int64_t>(value(key, OptionType::i64));
}

double Options::f64(std::string_view key) const {
  return std::get<double>(value(key, OptionType::f64));
}

const std::string& Options::str(std::string_view key) const {
  return std::get<std::string>(value(key, OptionType::str));
}

const std::vector<std::string>& Options::list(std::string_view key) const {
  return std::get<std::vector<std::string>>(value(key, OptionType::list));
}

Json Options::to_json() const {
  Json object = Json::object();
  for (const OptionSpec& spec : schema_->specs()) {
    const auto found = values_.find(spec.key);
    object[spec.key] = value_json(found != values_.end() ? found->second : spec.default_value);
  }
  return object;
}

} // namespace dllm
