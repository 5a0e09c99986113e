// A StatusLine shows the progress of a command on standard error.

#include "../processes/process.h"

#include <chrono>
#include <cstdio>
#include <unistd.h>

namespace dllm::cli {
namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(100);
constexpr const char* kEraseLine = "\r\x1b[K";

void write_line(const std::string& text) {
  std::fprintf(stderr, "%s%s", kEraseLine, text.c_str());
  std::fflush(stderr);
}

} // namespace

StatusLine::StatusLine(bool quiet) : shown_(!quiet && isatty(STDERR_FILENO) != 0) {}

StatusLine::~StatusLine() {
  clear();
}

void StatusLine::show(const std::string& text) {
  stop();
  if (shown_) write_line(text);
}

void StatusLine::clear() {
  stop();
  if (shown_) write_line("");
}

void StatusLine::follow(dllm_task* task, std::function<std::string(int64_t, int64_t)> text) {
  stop();
  if (!shown_) return;
  following_ = true;
  thread_ = std::thread([this, task, text = std::move(text)] {
    while (following_) {
      int64_t done = 0, total = 0;
      dllm_task_progress(task, &done, &total);
      write_line(text(done, total));
      std::this_thread::sleep_for(kBetweenLooks);
    }
  });
}

void StatusLine::stop() {
  following_ = false;
  if (thread_.joinable()) thread_.join();
}

} // namespace dllm::cli
