#pragma once
// Emitted text through a plugin's compiler, with the flags it needs (emit/flags.h).

#include "pjrt/client.h"
#include "pjrt/executable.h"

#include <memory>
#include <string_view>

namespace dllm::pjrt {

// Compiles with options.flags. A compiler that does not know one of `needed` (flags come and go)
// is asked again without it, and a warning says so; a flag of the user's it does not know is an
// error.
std::shared_ptr<const Executable>
compile_text(const Client& client, std::string_view program, CompileOptions options,
             const std::vector<std::pair<std::string, FlagValue>>& needed);

} // namespace dllm::pjrt
