#pragma once
// Decides which files of a name are loaded: what the hub has, what the cache has.

#include "base/task.h"
#include "hub/cache/cache.h"
#include "hub/choice.h"
#include "hub/name.h"
#include "hub/protocol/client.h"
#include "hub/protocol/listing.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dllm::hub {

// The files of a revision, as the hub lists them or as the cache has them.
struct Known {
  Listing listing;
  bool is_local = false;   // the hub was not asked, or it did not answer
  std::string reason = ""; // why it did not answer
};

// Asks the client's hub for the files of its revision, or looks into the cache if the hub cannot be
// asked. The list of a data set that is pinned to a commit is taken from the cache where it is
// there. Fails with not_found if the hub is not asked and the cache does not have the revision.
Known known_files(const Client& client, const Task* task);

// What a pull would do.
struct Plan {
  Name name;
  std::string commit, folder; // of the snapshot
  std::string path;           // what the name means: the folder, or a file in it
  struct File {
    RemoteFile remote;
    bool is_cached = false;
    bool is_weights = false;
    int64_t kept = 0; // bytes that an earlier pull has loaded
  };
  std::vector<File> files; // in the order of the transfers
  int64_t free = 0;        // bytes of free space in the cache's file system
  Known known;
};

// Plans a pull. weights: false for the descriptions of a model alone. Without the hub the files of
// a model are all in the cache; files of a data set may be missing. Fails as known_files, and
// with not_found or unavailable for a model that the cache has in part.
Plan plan_of(const Client& client, bool weights, const Task* task);
// Returns the plan of files that are all in the cache, or nothing. It asks no hub.
std::optional<Plan> cached_plan(const std::string& root, const Name& name);

// Returns the bytes of a blob that an earlier pull has loaded.
int64_t kept_bytes(const RepoCache& cache, const RemoteFile& file);
// Returns the bytes to load.
int64_t missing_bytes(const Plan& plan);
// Fails with not_found or unavailable if files are missing and the hub cannot be asked.
void check_whole(const Plan& plan);
// Fails with resource_exhausted if a file system has less than `missing` free bytes. what: the name
// of what is loaded.
void check_space(const std::string& what, int64_t missing, const std::string& cache);
// Fails for `missing` of `count` files that are not in the cache while the hub cannot be asked.
[[noreturn]] void fail_missing(const Name& name, const Known& known, size_t missing, size_t count);

// Writes the reference of a branch or tag, one process at a time.
void keep_revision(const Client& client, const std::string& commit, const Task* task);
// Keeps the list of a data set and the reference, before the first file is loaded. Without the list
// a reference would look like a pull that ended, so a list that cannot be kept leaves neither.
void keep_list(const Client& client, const Known& known, const Task* task);

} // namespace dllm::hub
