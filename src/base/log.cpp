#include "base/log.h"

#include <nlohmann/json.hpp>

#include <atomic>
#include <cstdio>
#include <deque>
#include <mutex>
#include <utility>

namespace dllm {

namespace {

constexpr size_t kQueueLines = 1000;
std::atomic<int32_t> min_level{static_cast<int32_t>(LogLevel::info)};
std::atomic<int32_t> sink{static_cast<int32_t>(LogSink::none)};

struct Queue {
  std::mutex mutex;
  std::deque<std::pair<LogLevel, std::string>> lines;
};

struct Hook {
  std::mutex mutex; // held while the function runs
  std::function<void(LogLevel, const std::string&)> fn;
};

thread_local bool inside_hook = false;

Hook& hook() {
  static auto* instance = new Hook; // never destroyed, as the queue
  return *instance;
}

Queue& queue() {
  static auto* instance = new Queue; // never destroyed: a thread may log while the process ends
  return *instance;
}

} // namespace

void log_hook(LogLevel level, std::function<void(LogLevel, const std::string&)> fn) {
  if (inside_hook) return;
  const std::lock_guard lock(hook().mutex);
  hook().fn = std::move(fn);
  min_level.store(static_cast<int32_t>(level));
  sink.store(static_cast<int32_t>(hook().fn ? LogSink::function : LogSink::none));
}

void log_config(LogLevel level, LogSink to) {
  if (inside_hook) return;
  const std::lock_guard lock(hook().mutex);
  hook().fn = nullptr;
  min_level.store(static_cast<int32_t>(level));
  sink.store(static_cast<int32_t>(to));
}

bool log_enabled(LogLevel level) noexcept {
  return sink.load(std::memory_order_relaxed) != static_cast<int32_t>(LogSink::none) &&
         static_cast<int32_t>(level) >= min_level.load(std::memory_order_relaxed);
}

void log_line(LogLevel level, std::string text) {
  if (!log_enabled(level)) return;
  if (sink.load() == static_cast<int32_t>(LogSink::function)) {
    if (inside_hook) return;
    const std::lock_guard lock(hook().mutex);
    inside_hook = true;
    if (hook().fn) hook().fn(level, text);
    inside_hook = false;
    return;
  }
  if (sink.load() == static_cast<int32_t>(LogSink::standard_error)) {
    constexpr const char* kNames[] = {"", "debug", "info", "warn", "error"};
    std::fprintf(stderr, "dllm %s: %s\n", kNames[static_cast<int>(level)], text.c_str());
    return;
  }
  const std::lock_guard lock(queue().mutex);
  queue().lines.emplace_back(level, std::move(text));
  if (queue().lines.size() > kQueueLines) queue().lines.pop_front();
}

std::optional<std::pair<LogLevel, std::string>> log_next() {
  const std::lock_guard lock(queue().mutex);
  if (queue().lines.empty()) return std::nullopt;
  auto line = std::move(queue().lines.front());
  queue().lines.pop_front();
  return line;
}

namespace {

const char* kind_name(EventKind kind) {
  switch (kind) {
  case EventKind::progress: return "progress";
  case EventKind::train_step: return "train_step";
  case EventKind::eval: return "eval";
  case EventKind::decode_step: return "decode_step";
  case EventKind::block: return "block";
  case EventKind::checkpoint: return "checkpoint";
  case EventKind::text: return "text";
  case EventKind::answer: return "answer";
  }
  return "unknown";
}

} // namespace

const Event::Value* Event::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

std::vector<std::string> Event::keys() const {
  std::vector<std::string> list;
  for (const auto& entry : values_) list.push_back(entry.first);
  return list;
}

Json Event::to_json() const {
  Json json = {{"event", kind_name(kind_)}};
  for (const auto& [key, value] : values_) {
    std::visit([&, &name = key](const auto& v) { json[name] = v; }, value);
  }
  return json;
}

} // namespace dllm
