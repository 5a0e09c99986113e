#pragma once
// Names the numbers of a model, so that an output says which model made it.

#include "base/task.h"

#include <string>

namespace dllm::model {

class Model;

// Returns 16 hexadecimal digits. They depend on the config of the base, and on the numbers of the
// base and of its adapters as the engine keeps them. A path, a file format and a shard count change
// nothing. Reads every number once.
std::string content_digest(const Model& model, const Task* task = nullptr);

} // namespace dllm::model
