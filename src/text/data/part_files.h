#pragma once
// Opens the files of one part of a SPEC in their order. Files of the hub are loaded into the cache
// one after another, or read by ranges.

#include "base/files.h"
#include "base/task.h"
#include "hub/data_set.h"
#include "hub/loading/load_ahead.h"
#include "text/data/row_files.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace dllm::text {

class PartFiles {
public:
  // paths: of a part. by_ranges: files of the hub that are not in the cache are read by ranges, and
  // nothing of them is kept. Fails if the files cannot be loaded: the hub cannot be asked, or the
  // disk has no room.
  PartFiles(const std::vector<std::string>& paths, RowFiles& all, bool by_ranges, const Task* task);

  size_t count() const { return paths_.size(); }
  int64_t bytes() const { return bytes_; }           // of all files
  int64_t bytes_to_load() const { return to_load_; } // into the cache
  int64_t loaded() const { return loader_ == nullptr ? 0 : loader_->loaded(); }
  // Opens file `index`, with its path or its address as name. Calls `waiting` while it is loaded.
  std::shared_ptr<const InputFile> open(size_t index, const std::function<void()>& waiting);

private:
  const hub::DataSet* data_ = nullptr; // null: files of this machine
  const Task* task_;
  std::vector<std::string> paths_;
  std::vector<hub::RemoteFile> remote_; // of the data set; as long as paths_
  int64_t bytes_ = 0, to_load_ = 0;
  std::unique_ptr<hub::LoadAhead> loader_; // null: files are read by ranges, or are all there
};

} // namespace dllm::text
