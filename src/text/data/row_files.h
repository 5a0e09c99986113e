#pragma once
// Finds the files that a SPEC names: on this machine, or in a data set of the hub by its address
// (hub/name.h).

#include "base/task.h"
#include "hub/data_set.h"

#include <map>
#include <string>
#include <vector>

namespace dllm::text {

class RowFiles {
public:
  explicit RowFiles(const Task* task) : task_(task) {}

  // Returns the folder that has all files of a data set whose address names no file. Other paths
  // are returned as they are.
  std::string place_of(const std::string& path);
  bool is_folder(const std::string& path);
  // Returns a file, or every file in a folder and its folders, in order of name. Fails with
  // not_found.
  std::vector<std::string> list(const std::string& path);
  // Returns the data set of an address, which lives as long as this object; null for a path of this
  // machine. Fails as hub::DataSet.
  const hub::DataSet* data_set_of(const std::string& path);

private:
  const Task* task_;                         // may be null
  std::map<std::string, hub::DataSet> sets_; // by address without a file
};

} // namespace dllm::text
