#pragma once
// Reports log lines and events to the host. The level and the sink of the log are the only global
// state of the library. By default the log has no sink. The library never writes to standard
// output.

#include "base/json.h"

#include <fmt/core.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace dllm {

enum class LogLevel : int32_t { debug = 1, info = 2, warn = 3, error = 4 };
enum class LogSink : int32_t { none = 0, standard_error = 1, queue = 2, function = 3 };

void log_config(LogLevel min_level, LogSink sink);
// Sends log lines to a function, one at a time; an empty function drops them. When log_hook or
// log_config returns, the previous function is no longer called. A call of either from inside the
// function does nothing, and lines logged inside it are dropped.
void log_hook(LogLevel min_level, std::function<void(LogLevel, const std::string&)> fn);
bool log_enabled(LogLevel level) noexcept;
void log_line(LogLevel level, std::string text);
// Removes and returns the oldest queued line. The queue keeps the last 1000 lines.
std::optional<std::pair<LogLevel, std::string>> log_next();

template <class... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) log_line(level, fmt::format(format, std::forward<Args>(args)...));
}

// include/dllm/base.h has the same numbers.
enum class EventKind : int32_t {
  progress = 1,
  train_step = 2,
  eval = 3,
  decode_step = 4,
  block = 5,
  checkpoint = 6,
  text = 7,
  answer = 8
};
enum class Answer : int32_t { go_on = 0, stop = 1, fail = 2 };

// The argument of every callback: a kind and values by key, so that new keys need no new type.
class Event {
public:
  using Value =
      std::variant<int64_t, double, std::string, std::vector<int32_t>, std::vector<float>>;

  explicit Event(EventKind kind) : kind_(kind) {}
  EventKind kind() const { return kind_; }
  Event& set(std::string key, Value value) {
    values_.insert_or_assign(std::move(key), std::move(value));
    return *this;
  }
  // Returns the value of a key, or null if the event lacks it.
  const Value* find(std::string_view key) const;
  std::vector<std::string> keys() const;
  Json to_json() const; // {"event": "train_step", ...}

private:
  EventKind kind_;
  std::map<std::string, Value, std::less<>> values_;
};

using EventFn = std::function<Answer(const Event&)>;

} // namespace dllm
