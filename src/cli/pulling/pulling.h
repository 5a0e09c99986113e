#pragma once
// Pulls names of the hub for the commands of the program.

#include "../command.h"

#include <nlohmann/json.hpp>

#include <string>

namespace dllm::cli {

// Makes options of kind hub.
Owned<dllm_options> hub_options(bool is_offline = false);

// Calls dllm_hub_pull.
std::string pull_path(const std::string& name, const dllm_options* options, dllm_task* task);

// Pulls a name and shows the progress. Before the weights are loaded it prints, on standard error
// unless `quiet`, their size and whether the model fits. Returns {"name", "commit", "path",
// "bytes", "missing", "fit"}, where "missing" are the bytes that were loaded. A cancelled pull
// fails with the bytes that are kept and the command that goes on. is_used: a model of a family
// that the library does not read is an error before its weights are loaded.
nlohmann::ordered_json pull_name(const std::string& name, dllm_options* options, dllm_task* task,
                                 bool quiet, bool is_used);

// Replaces the names of the hub among the arguments of a command by their paths in the cache, and
// pulls those that are not there. An existing path stays as it is.
void pull_arguments(const Command& command, Context& context);
// Returns the path of a model: an existing path as it is, a name of the hub as its path in the
// cache, pulled when it is not there.
std::string model_path(const std::string& given, const Context& context);

} // namespace dllm::cli
