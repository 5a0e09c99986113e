#pragma once
// Describes the parts of a model on disk: what each one is, how large it is, and what it reads.

#include "base/json.h"

#include <string>

namespace dllm::train {

// Returns the parts of the model that `path` names as a JSON array. `about` is the description of
// the same path (ckpt::WeightsOnDisk::describe). Each part has name, kind, stored and address as
// there, and when they are known:
//   family, layers, hidden   of a network
//   parameters               also of a part by reference
//   inputs, latents, context, level, heads   what a tower reads and makes
//   trained                  of a checkpoint: whether the run changed the part
//   reads                    names of the parts whose results this part reads
// The array is empty for a model of one file, and for a folder without other parts.
Json describe_parts(const std::string& path, const Json& about);

} // namespace dllm::train
