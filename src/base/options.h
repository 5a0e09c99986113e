#pragma once
// Typed options checked against a schema. The schema is one table in the file that reads the options; the manual,
// --help, Lua types and keyword arguments of bindings are made from it.

#include "base/json.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace dllm {

enum class OptionType { boolean, i64, f64, str, list };

using OptionValue =
    std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<std::string>>;

// One row of a schema. Rows are made by the option_* functions below.
struct OptionSpec {
  std::string key; // snake_case, dotted for sub-systems
  OptionType type;
  OptionValue default_value;
  double min = 0, max = 0; // numbers; checked when bounded
  bool bounded = false;
  std::vector<std::string> choices; // strings; empty: any text
  std::string sentence;             // one sentence for people
  int since = 1;
};

OptionSpec option_bool(std::string key, bool value, std::string sentence);
OptionSpec option_i64(std::string key, int64_t value, int64_t min, int64_t max,
                      std::string sentence);
OptionSpec option_f64(std::string key, double value, double min, double max, std::string sentence);
OptionSpec option_str(std::string key, std::string value, std::string sentence);
OptionSpec option_choice(std::string key, std::string value, std::vector<std::string> choices,
                         std::string sentence);
OptionSpec option_list(std::string key, std::vector<std::string> value, std::string sentence);

// The keys of one kind ("decoder", "objective:mdlm"). Lives as long as the process.
class Schema {
public:
  Schema(std::string kind, std::vector<OptionSpec> specs);

  const std::string& kind() const { return kind_; }
  const std::vector<OptionSpec>& specs() const { return specs_; }
  // Fails with not_found and the nearest key.
  const OptionSpec& find(std::string_view key) const;
  // {"kind", "keys": [{"name", "type", "default", "min", "max", "choices", "doc", "since"}]}
  Json to_json() const;

private:
  std::string kind_;
  std::vector<OptionSpec> specs_;
};

// Values set by a caller over the defaults of a schema. Copies are cheap enough to keep ("options are copied when
// used"). Setters check type, bounds and choices and change nothing when they fail.
class Options {
public:
  // REQUIRES: schema outlives the options (schemas are static tables).
  explicit Options(const Schema& schema) : schema_(&schema) {}

  const Schema& schema() const { return *schema_; }

  void set_i64(std::string_view key, int64_t value); // also for bool keys (0, 1) and f64 keys
  void set_f64(std::string_view key, double value);
  void set_str(std::string_view key, std::string_view value);
  // An object; nested objects give dotted keys. Either every key is set or none.
  void set_json(const Json& object);
  // Text as a person types it on a command line: "true", "1e-4", "a,b".
  void set_text(std::string_view key, std::string_view text);

  // Everything that is set in `other`, checked against this schema, which may have more keys and
  // other bounds. Fails where it lacks a key that is set, or the key has another type; then nothing
  // changes.
  void take_set(const Options& other);

  bool is_set(std::string_view key) const;
  bool boolean(std::string_view key) const;
  int64_t i64(std::string_view key) const;
  double f64(std::string_view key) const;
  const std::string& str(std::string_view key) const;
  const std::vector<std::string>& list(std::string_view key) const;

  Json to_json() const; // effective values of every key

private:
  const OptionValue& value(std::string_view key, OptionType type) const;
  void set(std::string_view key, OptionValue value);

  const Schema* schema_;
  std::map<std::string, OptionValue, std::less<>> values_;
};

} // namespace dllm
