#pragma once
// Lists, checks and removes the repositories of the cache.

#include "base/json.h"
#include "base/task.h"
#include "hub/name.h"

#include <string_view>

namespace dllm::hub {

// Returns [{"name", "kind", "bytes", "incomplete", "used", "path", "snapshots": [{"commit",
// "revisions", "files", "bytes", "path"}]}], sorted by name. "bytes" of a repository counts a blob
// once. "used" is the time of the last use in seconds since 1970, "incomplete" the bytes of
// transfers that did not end.
Json list_cache(const Task* task);

// Checks the blobs of one repository. Returns {"name", "files", "checked", "bytes", "faults":
// [{"path", "what"}]}: blobs that are named by their SHA-256 are hashed, others are read. Fails
// with not_found if the cache has no such repository.
Json verify_cached(std::string_view text, Task* task);

// Removes a repository from the cache, or the snapshot of one revision for "org/name@revision".
// Blobs that no other snapshot uses are removed. Returns {"name", "freed", "snapshots"}. Fails with
// not_found if the cache has no such repository or revision.
Json remove_cached(std::string_view text, const Task* task);

} // namespace dllm::hub
