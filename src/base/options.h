#pragma once
// Checks typed options against a schema. A schema is one table in the file that reads the options.
// The manual, --help, Lua types and keyword arguments of bindings are generated from the schemas.

#include "base/json.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace dllm {

enum class OptionType { boolean, i64, f64, str, list };

// What the elements of a list may be. Options keep all of them as texts.
enum class ListOf { texts, token_ids, texts_and_numbers };

using OptionValue =
    std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<std::string>>;

// One row of a schema. Rows are made by the option_* functions below.
struct OptionSpec {
  std::string key; // snake_case, dotted for sub-systems
  OptionType type;
  OptionValue default_value;
  double min = 0, max = 0; // inclusive range of a number, checked if `bounded`
  bool bounded = false;
  std::vector<std::string> choices; // allowed strings; an empty list allows any text
  std::string sentence;             // description for people
  int since = 1;
  bool is_json = false; // a text of JSON; set_json() also takes a list or an object
  ListOf list_of = ListOf::texts;
  std::string group = {}; // keys that answer one question, such as "constraint"; may be empty
};

OptionSpec option_bool(std::string key, bool value, std::string sentence);
OptionSpec option_i64(std::string key, int64_t value, int64_t min, int64_t max,
                      std::string sentence);
OptionSpec option_f64(std::string key, double value, double min, double max, std::string sentence);
OptionSpec option_str(std::string key, std::string value, std::string sentence);
OptionSpec option_choice(std::string key, std::string value, std::vector<std::string> choices,
                         std::string sentence);
// The default is an empty text.
OptionSpec option_json(std::string key, std::string sentence);
OptionSpec option_list(std::string key, std::vector<std::string> value, std::string sentence,
                       ListOf list_of = ListOf::texts);
// The default is an empty list.
OptionSpec option_ids(std::string key, std::string sentence);

// The option keys of one kind ("decoder", "objective:mdlm"). Schemas live until the process ends.
class Schema {
public:
  Schema(std::string kind, std::vector<OptionSpec> specs);

  const std::string& kind() const { return kind_; }
  const std::vector<OptionSpec>& specs() const { return specs_; }
  // Returns the row of a key. Fails with not_found and the nearest key as the hint.
  const OptionSpec& find(std::string_view key) const;
  // {"kind", "keys": [{"name", "type", "default", "min", "max", "choices", "doc", "since"}]}.
  // A list has "elem" too, the type of its elements: "i64" for token ids, "str" for texts. A key of
  // a group has "group".
  Json to_json() const;

private:
  std::string kind_;
  std::vector<OptionSpec> specs_;
};

// The values that a caller set; keys that are not set have the defaults of the schema. Copies are
// cheap, so every object keeps a copy of its options. Setters check type, range and choices, and
// change nothing if they fail.
class Options {
public:
  // REQUIRES: schema outlives the options (schemas are static tables).
  explicit Options(const Schema& schema) : schema_(&schema) {}

  const Schema& schema() const { return *schema_; }

  void set_i64(std::string_view key, int64_t value); // also for bool keys (0, 1) and f64 keys
  void set_f64(std::string_view key, double value);
  void set_str(std::string_view key, std::string_view value);
  // Sets the keys of an object, or none if one fails. A nested object sets dotted keys.
  void set_json(const Json& object);
  // Sets a value from the text of a command line: "true", "1e-4", "a,b".
  void set_text(std::string_view key, std::string_view text);

  // Copies the values that are set in `other` and checks them against this schema, whose keys and
  // ranges may differ. Fails, and changes nothing, if this schema lacks one of the keys, or if a
  // value does not fit its type, range or choices.
  void take_set(const Options& other);

  bool is_set(std::string_view key) const;
  bool boolean(std::string_view key) const;
  int64_t i64(std::string_view key) const;
  double f64(std::string_view key) const;
  const std::string& str(std::string_view key) const;
  const std::vector<std::string>& list(std::string_view key) const;

  Json to_json() const; // the value of every key, set or default

private:
  const OptionValue& value(std::string_view key, OptionType type) const;
  void set(std::string_view key, OptionValue value);

  const Schema* schema_;
  std::map<std::string, OptionValue, std::less<>> values_;
};

} // namespace dllm
