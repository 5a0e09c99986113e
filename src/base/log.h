#pragma once
// What the library reports to its host: log lines and events. The level and the sink of the log are the only global
// state of the library. Nothing is ever written to standard output. Default sink: none.

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
// Lines go to a function, one at a time; empty: nowhere. When this or log_config returns, the function before is not
// called any more. Inside of the function both do nothing, and lines are dropped.
void log_hook(LogLevel min_level, std::function<void(LogLevel, const std::string&)> fn);
bool log_enabled(LogLevel level) noexcept;
void log_line(LogLevel level, std::string text);
// Oldest queued line; the queue keeps the last 1000.
std::optional<std::pair<LogLevel, std::string>> log_next();

template <class... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) log_line(level, fmt::format(format, std::forward<Args>(args)...));
}

// The one argument of the one callback type: a kind and values by key, so that events can grow.

// Numbers are those of include/dllm/base.h.
enum class EventKind : int32_t {
  progress = 1,
  train_step = 2,
  eval = 3,
  decode_step = 4,
  block = 5,
  checkpoint = 6
};
enum class Answer : int32_t { go_on = 0, stop = 1, fail = 2 };

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
  // Null when there is no such key.
  const Value* find(std::string_view key) const;
  std::vector<std::string> keys() const;
  Json to_json() const; // {"event": "train_step", ...}

private:
  EventKind kind_;
  std::map<std::string, Value, std::less<>> values_;
};

using EventFn = std::function<Answer(const Event&)>;

} // namespace dllm
