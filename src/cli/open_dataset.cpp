#include "open_dataset.h"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <set>
#include <unistd.h>

namespace dllm::cli {
namespace {

// Returns "12 of 48 MB, 7 s left".
std::string reading_text(double seconds, int64_t done, int64_t total) {
  const auto mb = [](int64_t bytes) { return std::to_string(bytes / 1000000); };
  std::string text = mb(done) + " of " + mb(total) + " MB";
  if (done > 0 && seconds > 1) {
    const double left = seconds * static_cast<double>(total - done) / static_cast<double>(done);
    text += ", " + std::to_string(static_cast<int64_t>(left)) + " s left";
  }
  return text;
}

// The status line while a data set is opened, with the newest line of the log.
class ReadingLine {
public:
  ReadingLine(dllm_task* task, bool quiet);
  ~ReadingLine();
  ReadingLine(const ReadingLine&) = delete;
  ReadingLine& operator=(const ReadingLine&) = delete;

private:
  void take(int32_t level, const std::string& line); // of the log
  // Prints a warning of the data, once: a command may read its data twice.
  void print_once(int32_t level, const std::string& line) const;
  std::string text(int64_t done, int64_t total);

  const bool shown_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::string what_; // the newest line of the log
  StatusLine status_;
};

ReadingLine::ReadingLine(dllm_task* task, bool quiet)
    : shown_(!quiet && isatty(STDERR_FILENO) != 0), status_(!shown_) {
  dllm_log_hook(
      shown_ ? DLLM_LOG_INFO : DLLM_LOG_WARN,
      [](int32_t level, const char* line, void* self) {
        static_cast<ReadingLine*>(self)->take(level, line);
      },
      this);
  if (!shown_) return;
  status_.follow(task, [this](int64_t done, int64_t total) { return text(done, total); });
}

ReadingLine::~ReadingLine() {
  dllm_log_config(DLLM_LOG_WARN, DLLM_SINK_STDERR); // as main() does
}

void ReadingLine::take(int32_t level, const std::string& line) {
  constexpr size_t kMost = 70;
  if (level >= DLLM_LOG_WARN) {
    print_once(level, line);
    return;
  }
  const std::lock_guard lock(mutex_);
  what_ = line.size() <= kMost ? line : line.substr(0, kMost - 3) + "...";
}

void ReadingLine::print_once(int32_t level, const std::string& line) const {
  static auto* printed = new std::set<std::string>; // a thread may log while the process ends
  static std::mutex mutex;
  {
    const std::lock_guard lock(mutex);
    if (!printed->insert(line).second) return;
  }
  std::fprintf(stderr, "%sdllm %s: %s\n", shown_ ? "\r\x1b[K" : "",
               level == DLLM_LOG_WARN ? "warn" : "error", line.c_str());
}

std::string ReadingLine::text(int64_t done, int64_t total) {
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
  const std::lock_guard lock(mutex_);
  if (total <= 0) return what_;
  return what_ + (what_.empty() ? "" : "  ") + reading_text(passed.count(), done, total);
}

} // namespace

Owned<dllm_dataset> open_dataset(const Context& context, const std::string& path,
                                 const dllm_tokenizer* tokenizer, bool quiet) {
  const ReadingLine line(context.task(), quiet);
  return make<dllm_dataset>([&](dllm_dataset** out, dllm_error* err) {
    return dllm_dataset_open(path.c_str(), tokenizer, context.options("dataset"), context.task(),
                             out, err);
  });
}

} // namespace dllm::cli
