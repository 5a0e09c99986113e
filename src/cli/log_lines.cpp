#include "log_lines.h"

#include "dllm/dllm.h"

#include <cstdio>
#include <mutex>
#include <set>

namespace dllm::cli {

void print_once(int32_t level, const std::string& line, const char* before) {
  static std::mutex mutex;
  static auto* printed = new std::set<std::string>; // a thread may log while the process ends
  {
    const std::lock_guard lock(mutex);
    if (!printed->insert(line).second) return;
  }
  std::fprintf(stderr, "%sdllm %s: %s\n", before, level >= DLLM_LOG_ERROR ? "error" : "warn",
               line.c_str());
}

void show_log() {
  dllm_log_hook(
      DLLM_LOG_WARN, [](int32_t level, const char* line, void*) { print_once(level, line); },
      nullptr);
}

} // namespace dllm::cli
