#pragma once
// Reads the file of dllm serve --models, which names the models of a server.

#include "model_shelf.h"

#include <functional>
#include <string>
#include <vector>

namespace dllm::cli {

// Reads {"NAME": PATH, "NAME": {"model": PATH, "template": ..., "settings": {...}, "adapters":
// ["NAME=PATH"]}}. Paths are relative to the folder of the file. A path that does not exist there
// stays as it is: a name of the hub. defaults: values of a model that has none of its own. Throws
// UsageFailure.
std::vector<ModelEntry> read_models_file(const std::string& path, const ModelEntry& defaults);

// Reads settings of kind "request" that a server gives to requests without them. where: begins the
// message of an error. Throws Failure.
nlohmann::ordered_json request_defaults(const nlohmann::ordered_json& given,
                                        const std::string& where);

} // namespace dllm::cli
