#pragma once
// Loads one file of the hub into the cache.

#include "hub/cache/cache.h"
#include "hub/loading/progress.h"
#include "hub/protocol/listing.h"

#include <string>

namespace dllm::hub {

// Loads the blob of a file unless it is in the cache, and makes the file of the snapshot from it.
// Bytes go to ETAG.incomplete, with which a later call goes on. At the end size and SHA-256 are
// checked. Fails with data_loss for wrong content, which is removed. Several threads may load
// different files.
void load_file(const Client& client, const RepoCache& cache, const std::string& commit,
               const RemoteFile& file, Progress& progress, const Task* task);

} // namespace dllm::hub
