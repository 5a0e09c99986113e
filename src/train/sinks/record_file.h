#pragma once
// A RecordFile appends whole records to a file without buffering, and keeps the records that the
// disk has no room for. Private to src/train.

#include "base/files.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace dllm::train {

class RecordFile {
public:
  // sink: its kind, in messages.
  RecordFile(std::string sink, const std::string& path, bool append);

  const std::string& path() const { return file_->path(); }
  // Writes a record. Fails once when the file takes no more data. The record is kept, and the next
  // call tries to write it again without another error.
  void write(std::string record);
  // Fails when records are left.
  void finish();
  // Removes the records for which is_undone returns true, written or kept, from a file whose
  // records are lines. A last line that a kill cut is removed too.
  void rewind(const std::function<bool(std::string_view line)>& is_undone);

private:
  using IsUndone = std::function<bool(std::string_view)>;

  int flush();
  void drop_waiting(const IsUndone& is_undone);
  [[noreturn]] void fail_waiting(int number);

  std::string sink_;
  std::unique_ptr<AppendFile> file_;
  std::deque<std::string> waiting_; // records that are not written yet
  size_t begun_ = 0;                // bytes of the first that are in the file
  size_t bytes_ = 0;                // of all waiting records
  int64_t lost_ = 0;                // records that did not fit into waiting_
  bool failed_ = false;             // the last write failed, and its error was reported
};

} // namespace dllm::train
