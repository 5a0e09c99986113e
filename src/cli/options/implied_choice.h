#pragma once
// Finds what the files of a command imply for an option that chooses a schema.

#include <string>

namespace dllm::cli {

// Returns the policy that decodes a model when none is named; "" when its files do not say.
std::string policy_for_model(const std::string& model);
// Returns the objective of the run in a folder; "" for another folder.
std::string objective_of_run(const std::string& out);

} // namespace dllm::cli
