#pragma once
// Looks at the snapshots of one repository in the cache.

#include "hub/cache/cache.h"
#include "hub/choice.h"
#include "hub/protocol/listing.h"

#include <string>
#include <vector>

namespace dllm::hub {

// Returns the files of a snapshot whose blobs are there, sorted by path.
std::vector<RemoteFile> snapshot_files(const RepoCache& cache, const std::string& commit);

// Returns true if a snapshot has what a choice from its own files needs. For a model these are its
// config, its tokenizer and every shard of its index. Other programs pull files one by one.
bool is_whole(const RepoCache& cache, const std::string& commit, const Choice& choice,
              const Name& name);

} // namespace dllm::hub
