#pragma once
// Process-wide log: the level and the sink are the only global state of the library. Nothing is ever written to
// standard output. Default sink: none.

#include <fmt/core.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

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

}  // namespace dllm
