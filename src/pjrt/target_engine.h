#pragma once
// An engine of hardware that is not there: it compiles and tells, it holds and runs nothing.

#include "base/options.h"
#include "graph/engine.h"

#include <memory>

namespace dllm::pjrt {

// Option target is set; option plugin may name another plugin than the target's own. Fails with
// not_found when the plugin is absent, with invalid_argument for hardware that has no such name.
std::shared_ptr<graph::Engine> make_target_engine(const Options& options);

// What a compiler says of a program that is too big, with its numbers in front: "does not fit:
// needs 68719476736 bytes, has 16911433728 bytes: ...". A text without numbers stays as it is.
std::string explain_no_room(const std::string& text);

} // namespace dllm::pjrt
