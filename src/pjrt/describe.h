#pragma once
// Plugins for people: which are found, what a loaded one says of itself.

#include "base/json.h"

#include <string>

namespace dllm::pjrt {

// [{platform, paths, packages, missing}]; loads nothing.
Json list_plugins();
// Loads the plugin (a path or a platform's name): {path, api, attributes}.
Json describe_plugin(const std::string& plugin);

} // namespace dllm::pjrt
