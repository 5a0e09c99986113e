#pragma once
// The files of a data set of the hub, for readers that begin before all of them are loaded.

#include "base/error.h"
#include "base/files.h"
#include "base/task.h"
#include "hub/loading/progress.h"
#include "hub/name.h"
#include "hub/plan.h"
#include "hub/protocol/client.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::hub {

// One revision of a data set. Any thread may use it.
class DataSet {
public:
  // Asks the hub, or the cache, for the list of the files. The file of the name is not used. Fails
  // as known_files.
  DataSet(Name name, const Task* task);
  DataSet(const DataSet&) = delete;
  DataSet& operator=(const DataSet&) = delete;

  // Returns the folder that has all files with rows, "" for the top.
  const std::string& top_folder() const { return top_folder_; }
  // Returns true if files with rows are below a path of the repository, "" for the top.
  bool is_folder(const std::string& path) const;
  // Returns the files with rows that a path means. The path is a folder, a file or a pattern. The
  // order is the order in which a folder of this machine is read. Fails with not_found.
  std::vector<RemoteFile> files_at(const std::string& path) const;
  // Returns a file of the list. REQUIRES: files_at() returned it.
  const RemoteFile& file_at(const std::string& path) const;
  // "hf://datasets/org/name@revision/FILE"
  std::string address(const std::string& file) const;
  // Returns the path of a file in the cache, or nothing if it is not loaded.
  std::optional<std::string> cached(const RemoteFile& file) const;

  // Fails if some of the files are missing while the hub cannot be asked, or if the disk has no
  // room for them.
  void check_loadable(const std::vector<RemoteFile>& files) const;
  // Loads a file into the cache unless it is there, and returns its path.
  std::string load(const RemoteFile& file, Progress& progress, const Task* task) const;
  // Opens a file that is read by ranges. Nothing of it is kept. The result is used while this
  // object lives.
  ContentRef open_by_ranges(const RemoteFile& file, const Task* task) const;

private:
  size_t count_missing(const std::vector<RemoteFile>& files) const;
  // Fails, with the number of missing files, for a missing file while the hub cannot be asked.
  void check_reachable(const RemoteFile& file) const;
  // Throws the error again. Where the hub does not answer, it says how many files are missing.
  [[noreturn]] void fail_unreachable(const Error& error) const;

  Client client_;
  Known known_;
  std::vector<RemoteFile> rows_; // every file with rows, in the order of reading
  std::string top_folder_;
};

} // namespace dllm::hub
