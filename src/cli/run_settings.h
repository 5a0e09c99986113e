#pragma once
// The file with the settings of the training run that a model belongs to.

#include <string>

namespace dllm::cli {

// Returns the run.json of a model's path: that of "runs/a" for the run itself, for "runs/a/best"
// and for "runs/a/best/step_000100/model". Returns "" for a model that is not of a run.
std::string run_settings_file(const std::string& model);

} // namespace dllm::cli
