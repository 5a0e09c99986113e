#include "train/jsonl_sink.h"

#include "base/error.h"
#include "base/file_error.h"
#include "base/output_file.h"
#include "train/undone_lines.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

namespace dllm::train {
namespace {

class JsonlSink final : public Sink {
public:
  JsonlSink(const std::string& path, int64_t every, bool append)
      : every_(every), file_(std::make_unique<AppendFile>(path, append)) {}

  void rewind(int64_t step) override {
    flush();
    const std::string path = file_->path();
    if (drop_undone_lines(path, step)) file_ = std::make_unique<AppendFile>(path, true);
  }

  void write(const Event& event, const Progress&) override {
    if (event.kind() == EventKind::train_step && count_++ % every_ != 0) return;
    const std::string line = event.to_json().dump() + "\n";
    if (waiting_.size() + line.size() > kMostWaiting)
      ++lost_;
    else
      waiting_ += line;
    const bool failed_before = failed_;
    const int number = flush();
    if (failed_ && !failed_before) fail_waiting(number);
  }

  void finish() override {
    if (waiting_.empty() && lost_ == 0) return;
    const int number = flush();
    if (failed_ || lost_ > 0) fail_waiting(number);
  }

private:
  static constexpr size_t kMostWaiting = size_t{16} << 20; // some 100,000 lines

  // Writes what waits; a line that was cut goes on where it was cut. Answers errno.
  int flush() {
    errno = 0;
    waiting_.erase(0, file_->write(waiting_));
    const int number = errno;
    failed_ = !waiting_.empty();
    return number;
  }

  [[noreturn]] void fail_waiting(int number) {
    const auto lines = std::count(waiting_.begin(), waiting_.end(), '\n');
    fail_with_hint("make room: lines that are kept are written with the next one",
                   failed_ ? errno_code(number) : Code::resource_exhausted,
                   "sink jsonl: cannot write {}: {}; {} lines are kept, {} are lost", file_->path(),
                   failed_ ? std::strerror(number) : "it had no room", lines,
                   std::exchange(lost_, 0));
  }

  int64_t every_;
  int64_t count_ = 0;
  std::unique_ptr<AppendFile> file_;
  std::string waiting_;
  int64_t lost_ = 0;    // lines for which there was no room here either
  bool failed_ = false; // and that was reported
};

} // namespace

std::unique_ptr<Sink> make_jsonl_sink(const std::string& path, int64_t every, bool append) {
  return std::make_unique<JsonlSink>(path, every, append);
}

} // namespace dllm::train
