#pragma once
// Files in an object store, by paths as "s3://bucket/folder/name". Reading goes through base/files.h, whose functions take
// such paths (file_exists, is_directory, file_size, list_directory, read_text, open_content, open_source); writing is here,
// because an object appears whole or not at all and nothing can be renamed.

#include "base/files.h"
#include "base/store/address.h"
#include "base/task.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::store {

struct Object {
  std::string path; // below the folder that was listed
  int64_t size = 0;
};

// The answers of base/files.h for such paths. A folder is there when an object lies below it.
bool has_object(const std::string& path);
bool has_folder(const std::string& path);
int64_t object_size(const std::string& path); // not_found
std::vector<std::string> object_names(const std::string& folder);
// Read by ranges, some of them at once where reads go forward. One state of the object: data_loss when it is replaced.
ContentRef object_content(const std::string& path);

// Every object below `folder`, sorted by path.
std::vector<Object> list_objects(const std::string& folder, const Task* task = nullptr);
// Writes one object. In parts where the file is larger than 16 MiB, four at a time; parts of a failed upload are removed.
// resource_exhausted when the store is full; unavailable when it did not come back in time.
void put_file(const std::string& path, const std::string& local_file, const Task* task = nullptr);
void put_text(const std::string& path, std::string_view text, const Task* task = nullptr);
// Objects of one bucket, in no order. One that is not there is fine.
void remove_objects(const std::vector<std::string>& paths, const Task* task = nullptr);

// While one lives, transfers that this thread starts through base/files.h look at `task`, which may be null.
class TransferTask {
public:
  explicit TransferTask(const Task* task);
  ~TransferTask();
  TransferTask(const TransferTask&) = delete;
  TransferTask& operator=(const TransferTask&) = delete;
  static const Task* current();

private:
  const Task* before_;
};

} // namespace dllm::store
