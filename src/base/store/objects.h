#pragma once
// Reads, lists, writes and removes the objects of an object store by paths like
// "s3://bucket/folder/name". Readers use base/files.h, whose functions accept such paths. Writers
// use this header, because an object appears whole or not at all and cannot be renamed.

#include "base/files.h"
#include "base/store/address.h"
#include "base/task.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::store {

struct Object {
  std::string path; // relative to the listed folder
  int64_t size = 0;
};

// These functions implement base/files.h for paths of a store. A folder exists if at least one
// object is below it.
bool has_object(const std::string& path);
bool has_folder(const std::string& path);
int64_t object_size(const std::string& path); // fails with not_found
std::vector<std::string> object_names(const std::string& folder);
// Opens an object, which is read by ranges; a large read fetches several ranges at once. A read
// fails with data_loss if the object was replaced after it was opened.
ContentRef object_content(const std::string& path);

// Returns every object below `folder`, sorted by path.
std::vector<Object> list_objects(const std::string& folder, const Task* task = nullptr);
// Writes one object. A file larger than 16 MiB is sent in parts, four at a time; the parts of a
// failed upload are removed. Fails with resource_exhausted if the store is full, with unavailable
// if the store does not recover in time.
void put_file(const std::string& path, const std::string& local_file, const Task* task = nullptr);
void put_text(const std::string& path, std::string_view text, const Task* task = nullptr);
// Removes objects of one bucket in any order. A missing object is not an error.
void remove_objects(const std::vector<std::string>& paths, const Task* task = nullptr);

// While a TransferTask lives, transfers that this thread starts through base/files.h check `task`,
// which may be null.
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
