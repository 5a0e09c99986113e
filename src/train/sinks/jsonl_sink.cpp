#include "train/sinks/jsonl_sink.h"

#include "base/error.h"
#include "base/files.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>

namespace dllm::train {
namespace {

bool is_undone(std::string_view line, int64_t step) {
  const Json object = Json::parse(line, nullptr, false);
  if (!object.is_object()) return false;
  const auto found = object.find("step");
  return found != object.end() && found->is_number_integer() && found->get<int64_t>() > step;
}

// Returns the whole lines of `text`, without lines of steps after `step`.
std::string without_undone_lines(std::string_view text, int64_t step) {
  std::string kept;
  for (size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string_view::npos;
       at = end + 1) {
    if (!is_undone(text.substr(at, end - at), step)) kept += text.substr(at, end + 1 - at);
  }
  return kept;
}

// Removes lines of steps after `step`, and a last line that a kill cut. The file is replaced at
// once, so a kill leaves the old or the new file. Returns true when the file was replaced; an open
// handle then writes to the old one. A link stays a link. Anything but a regular file is left
// alone.
bool drop_undone_lines(const std::string& path, int64_t step) {
  std::error_code failed;
  if (!std::filesystem::is_regular_file(path, failed)) return false;
  const std::string file = std::filesystem::canonical(path, failed).string();
  if (failed) return false;
  // No limit of the size, because dllm wrote this file and a run may be long.
  const std::string text = read_text(file, INT64_MAX);
  const std::string kept = without_undone_lines(text, step);
  if (kept.size() == text.size()) return false;
  write_file_atomic(file, kept);
  return true;
}

class JsonlSink final : public Sink {
public:
  JsonlSink(const std::string& path, int64_t every, bool append)
      : every_(every), file_(std::make_unique<AppendFile>(path, append)) {}

  // After a write that was cut in a line, the rest of that line stays first in `waiting_` if the
  // file keeps its beginning. If the file was replaced without the beginning, the whole line waits
  // again.
  void rewind(int64_t step) override {
    flush();
    drop_waiting(step);
    failed_ = false;
    const std::string path = file_->path();
    if (!drop_undone_lines(path, step)) return;
    file_ = std::make_unique<AppendFile>(path, true);
    waiting_.insert(0, std::exchange(begun_, {}));
    drop_waiting(step);
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

  // Writes the waiting text and returns errno. A line that was cut is continued where it was cut.
  int flush() {
    errno = 0;
    const size_t written = file_->write(waiting_);
    const int number = errno;
    const std::string_view done = std::string_view(waiting_).substr(0, written);
    const size_t end = done.rfind('\n');
    if (end != std::string_view::npos) begun_.clear();
    begun_ += done.substr(end == std::string_view::npos ? 0 : end + 1);
    waiting_.erase(0, written);
    failed_ = !waiting_.empty();
    return number;
  }

  // Removes waiting lines of steps after `step`, but not the rest of a line that is partly written.
  void drop_waiting(int64_t step) {
    const size_t rest = begun_.empty() ? 0 : waiting_.find('\n') + 1;
    const std::string kept = without_undone_lines(std::string_view(waiting_).substr(rest), step);
    waiting_.replace(rest, std::string::npos, kept);
  }

  [[noreturn]] void fail_waiting(int number) {
    const auto lines = std::count(waiting_.begin(), waiting_.end(), '\n');
    fail_with_hint("make room: the kept lines are written with the next line",
                   failed_ ? errno_code(number) : Code::resource_exhausted,
                   "sink jsonl: cannot write {}: {}; {} lines are kept, {} are lost", file_->path(),
                   failed_ ? std::strerror(number) : "the file had no room", lines,
                   std::exchange(lost_, 0));
  }

  int64_t every_;
  int64_t count_ = 0;
  std::unique_ptr<AppendFile> file_;
  std::string begun_;   // the part of the first waiting line that is in the file
  std::string waiting_; // whole lines, except for that part
  int64_t lost_ = 0;    // lines that did not fit into waiting_
  bool failed_ = false; // the last write failed, and its error was reported
};

} // namespace

std::unique_ptr<Sink> make_jsonl_sink(const std::string& path, int64_t every, bool append) {
  return std::make_unique<JsonlSink>(path, every, append);
}

} // namespace dllm::train
