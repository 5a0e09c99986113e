#pragma once
// A data set in a cache of the test, which asks no hub.

#include "base/files.h"
#include "hub/cache/cache.h"
#include "hub/cache/tree.h"
#include "unit/hub/variables.h"
#include "unit/test_files.h"

#include <map>
#include <string>

namespace dllm::test {

class CachedData {
public:
  static inline const std::string kCommit = std::string(40, 'c');
  static inline const std::string kAddress = "hf://datasets/org/rows@" + kCommit;

  // files: path and content. The list of the commit has all of them.
  explicit CachedData(const std::map<std::string, std::string>& files)
      : variables_({{"HF_HUB_CACHE", folder_.path()}, {"HF_HUB_OFFLINE", "1"}}) {
    hub::Listing listing;
    listing.commit = kCommit;
    for (const auto& [path, content] : files) {
      const std::string file = cache_.file(kCommit, path);
      make_directories(parent_path(file));
      write_file_atomic(file, content);
      listing.files.push_back({path, static_cast<int64_t>(content.size()), "", "blob"});
    }
    hub::keep_tree(cache_, listing, nullptr);
    cache_.write_ref("main", kCommit);
  }

  std::string path(const std::string& file) const { return cache_.file(kCommit, file); }
  void remove(const std::string& file) const { remove_all(path(file)); }
  const hub::RepoCache& cache() const { return cache_; }

private:
  TempFolder folder_;
  Variables variables_;
  hub::RepoCache cache_{folder_.path(), *hub::parse_name("dataset:org/rows")};
};

} // namespace dllm::test
