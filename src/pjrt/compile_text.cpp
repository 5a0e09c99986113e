#include "pjrt/compile_text.h"

#include "base/error.h"
#include "base/log.h"

#include <algorithm>

namespace dllm::pjrt {

std::shared_ptr<const Executable>
compile_text(const Client& client, std::string_view program, CompileOptions options,
             const std::vector<std::pair<std::string, FlagValue>>& needed) {
  try {
    return client.compile(program, options);
  } catch (const Error& error) {
    // "No such compile option: 'xla_x'"
    const auto refused = std::find_if(needed.begin(), needed.end(), [&](const auto& flag) {
      return error.text().find("No such compile option: '" + flag.first + "'") != std::string::npos;
    });
    if (refused == needed.end() || std::erase(options.flags, *refused) == 0) throw;
    log(LogLevel::warn, "pjrt: the compiler has no flag {}, edges of operations (NaN) may differ",
        refused->first);
  }
  return compile_text(client, program, std::move(options), needed);
}

} // namespace dllm::pjrt
