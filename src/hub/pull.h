#pragma once
// Pulls repositories of the hub into the cache, and finds what is there.

#include "base/json.h"
#include "base/options.h"
#include "base/task.h"
#include "hub/name.h"
#include "hub/plan.h"

#include <optional>
#include <string>
#include <string_view>

namespace dllm::hub {

// The schema "hub": file revision dataset weights offline attempts.
const Schema& hub_schema();

// Returns the name that a text and the options mean. Options file, revision and dataset count
// before the text.
Name name_with(std::string_view text, const Options& options);

// Asks the hub what it has, without loading a file. If the hub cannot be asked, the plan has the
// files in the cache.
Plan plan_pull(std::string_view text, const Options& options, const Task* task);
// {"name", "commit", "path", "bytes", "missing", "free", "memory", "files": [{"path", "size",
// "cached", "weights"}]}; "missing" are the bytes to load, "memory" those that this process may
// use.
Json to_json(const Plan& plan);

// Loads the files that are missing and returns the path that the name means. Without network, or
// with HF_HUB_OFFLINE, the files must be in the cache. Fails with resource_exhausted, before
// the first byte, if the disk has no room. Of a data set without option weights only the list of
// its files is loaded, and the result is its address (hub/name.h), pinned to the commit.
std::string pull(std::string_view text, const Options& options, Task* task);

// Returns the path that a name means if the cache has all of its files, else nothing. It asks
// neither the hub nor another process.
std::optional<std::string> cached_path(const Name& name);

// Returns `path` if such a file or folder exists, else the path that it means as a name in the
// cache. Fails with not_found, with the command that pulls the name, if it is not in the cache.
// Other texts are returned as they are.
std::string local_path(const std::string& path);

} // namespace dllm::hub
