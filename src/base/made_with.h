#pragma once
// The settings that an output was made with. They are in a file next to the output, and a later
// call continues the output with the same settings alone.

#include "base/json.h"

#include <string>

namespace dllm {

// Returns the path of that file: "order.jsonl.settings.json".
std::string settings_path(const std::string& output);
// Writes the settings of an output to `file`, which appears whole or not at all.
void write_settings(const std::string& file, const Json& settings);
// Fails with failed_precondition when the output was made with other settings than `file` has. The
// error names the first setting that differs and both values. It also fails when the file is
// missing. An object of settings is compared member by member ("teacher.weights").
void check_settings(const std::string& output, const std::string& file, const Json& settings);

} // namespace dllm
