#include "train/sinks/record_file.h"

#include "base/error.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace dllm::train {
namespace {

constexpr size_t kMostWaiting = size_t{16} << 20; // bytes; some 100,000 records

// Removes lines, and a last line that a kill cut. The file is replaced at once, so a kill leaves
// the old or the new file. Returns true when the file was replaced; an open handle then writes to
// the old one. A link stays a link. Anything but a regular file is left alone.
bool drop_lines(const std::string& path, const std::function<bool(std::string_view)>& is_undone) {
  std::error_code failed;
  if (!std::filesystem::is_regular_file(path, failed)) return false;
  const std::string file = std::filesystem::canonical(path, failed).string();
  if (failed) return false;
  // No limit of the size, because dllm wrote this file and a run may be long.
  const std::string text = read_text(file, INT64_MAX);
  const std::string_view view = text;
  std::string kept;
  for (size_t at = 0, end = 0; (end = view.find('\n', at)) != std::string_view::npos;
       at = end + 1) {
    if (!is_undone(view.substr(at, end - at))) kept += view.substr(at, end + 1 - at);
  }
  if (kept.size() == text.size()) return false;
  write_file_atomic(file, kept);
  return true;
}

} // namespace

RecordFile::RecordFile(std::string sink, const std::string& path, bool append)
    : sink_(std::move(sink)), file_(std::make_unique<AppendFile>(path, append)) {}

void RecordFile::write(std::string record) {
  if (bytes_ + record.size() > kMostWaiting) {
    ++lost_;
  } else {
    bytes_ += record.size();
    waiting_.push_back(std::move(record));
  }
  const bool failed_before = failed_;
  const int number = flush();
  if (failed_ && !failed_before) fail_waiting(number);
}

void RecordFile::finish() {
  if (waiting_.empty() && lost_ == 0) return;
  const int number = flush();
  if (failed_ || lost_ > 0) fail_waiting(number);
}

// A record that was cut in the file stays first, and is continued where it was cut. If the file was
// replaced without its beginning, the whole record waits again.
void RecordFile::rewind(const IsUndone& is_undone) {
  flush();
  drop_waiting(is_undone);
  failed_ = false;
  const std::string path = file_->path();
  if (!drop_lines(path, is_undone)) return;
  file_ = std::make_unique<AppendFile>(path, true);
  begun_ = 0;
  drop_waiting(is_undone);
}

// Writes the waiting records and returns errno.
int RecordFile::flush() {
  errno = 0;
  while (!waiting_.empty()) {
    const std::string_view record = waiting_.front();
    begun_ += file_->write(record.substr(begun_));
    if (begun_ < record.size()) break;
    bytes_ -= record.size();
    waiting_.pop_front();
    begun_ = 0;
  }
  const int number = errno;
  failed_ = !waiting_.empty();
  return number;
}

void RecordFile::drop_waiting(const IsUndone& is_undone) {
  std::deque<std::string> kept;
  for (std::string& record : waiting_) {
    const bool is_begun = kept.empty() && begun_ > 0 && &record == &waiting_.front();
    if (is_begun || !is_undone(record)) kept.push_back(std::move(record));
  }
  waiting_ = std::move(kept);
  bytes_ = 0;
  for (const std::string& record : waiting_) bytes_ += record.size();
}

void RecordFile::fail_waiting(int number) {
  fail_with_hint("make room: the kept records are written with the next one",
                 failed_ ? errno_code(number) : Code::resource_exhausted,
                 "sink {}: cannot write {}: {}; {} records are kept, {} are lost", sink_,
                 file_->path(), failed_ ? std::strerror(number) : "the file had no room",
                 waiting_.size(), std::exchange(lost_, 0));
}

} // namespace dllm::train
