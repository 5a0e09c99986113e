#pragma once
// The list of the files of a commit in the cache, by which a whole snapshot differs from a part of
// one.

#include "base/task.h"
#include "hub/cache/cache.h"
#include "hub/protocol/listing.h"

#include <optional>
#include <string>

namespace dllm::hub {

// Returns the list of a commit, or nothing if the cache has none that can be used. The file
// trees/COMMIT.json has the form that huggingface_hub 2.4 reads and writes:
// {"format_version": 1, "files": {PATH: {"size", "blob_id", "lfs_sha256", "lfs_size"}}}
std::optional<Listing> kept_tree(const RepoCache& cache, const std::string& commit);

// Keeps the list of a commit unless it is there, with the folder of its snapshot. One process
// writes at a time. Returns false for a list whose files lack sizes or hashes, which is not kept.
bool keep_tree(const RepoCache& cache, const Listing& listing, const Task* task);

} // namespace dllm::hub
