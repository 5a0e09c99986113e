#pragma once
// Names of the parts of a model, as models and checkpoints have them.

#include <string_view>

namespace dllm::ckpt {

inline constexpr const char* kBasePart = "base";             // the network of the model
inline constexpr std::string_view kAdapterPart = "adapter:"; // then the name of the adapter
// A network that only a loss reads. The caller who trains with it adds it to the model, so the load
// of a checkpoint leaves it out.
inline constexpr const char* kTeacherPart = "teacher";
// The networks of a mask filler are this one and those whose names begin with it and "_". The base
// reads them in every pass.
inline constexpr std::string_view kFillerPart = "filler";

} // namespace dllm::ckpt
