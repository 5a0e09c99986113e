#include "text/data/part_files.h"

#include "base/log.h"
#include "base/number.h"
#include "hub/name.h"

#include <algorithm>

namespace dllm::text {

PartFiles::PartFiles(const std::vector<std::string>& paths, RowFiles& all, bool by_ranges,
                     const Task* task)
    : data_(all.data_set_of(paths.front())), task_(task) {
  for (const std::string& path : paths) {
    const std::vector<std::string> inside = all.list(path);
    paths_.insert(paths_.end(), inside.begin(), inside.end());
  }
  if (data_ == nullptr) {
    for (const std::string& path : paths_) bytes_ += file_stamp(path).size;
    return;
  }
  for (const std::string& path : paths_) {
    remote_.push_back(data_->file_at(hub::parse_address(path).file));
    const int64_t size = std::max<int64_t>(0, remote_.back().size);
    bytes_ += size;
    if (!by_ranges && !data_->cached(remote_.back())) to_load_ += size;
  }
  if (by_ranges) return;
  data_->check_loadable(remote_);
  loader_ = std::make_unique<hub::LoadAhead>(*data_, remote_, task);
}

std::shared_ptr<const InputFile> PartFiles::open(size_t index,
                                                 const std::function<void()>& waiting) {
  const std::string& path = paths_[index];
  if (data_ == nullptr) return std::make_shared<const InputFile>(path);
  const hub::RemoteFile& file = remote_[index];
  log(LogLevel::info, "file {} of {}: {}, {}", index + 1, count(), file.path,
      memory_text(static_cast<double>(std::max<int64_t>(0, file.size))));
  if (loader_ != nullptr) return std::make_shared<const InputFile>(loader_->take(index, waiting));
  if (const auto cached = data_->cached(file)) return std::make_shared<const InputFile>(*cached);
  return std::make_shared<const InputFile>(path, data_->open_by_ranges(file, task_));
}

} // namespace dllm::text
