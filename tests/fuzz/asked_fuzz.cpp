// Any bytes as the body of a request to dllm serve: settings that the library takes or refuses, or
// a Failure with a status. Nothing else is thrown, since it would be an internal error for clients.
#include "command.h"
#include "dllm/dllm.h"
#include "serve/asked.h"
#include "serve/tool_calls.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dllm::cli;
  using Json = nlohmann::ordered_json;
  if (size == 0 || size > 8192) return 0;
  const auto kind = static_cast<AskKind>(data[0] % 3);
  const std::string body(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    const Json none = Json::object();
    const Asked asked =
        read_asked(kind, body, 1, [&](const std::string&) -> const Json& { return none; });
    for (const Json& request : asked.requests) {
      const std::string settings = request.dump();
      dllm_options* options = nullptr;
      if (dllm_options_new("request", &options, nullptr) != DLLM_OK) std::abort();
      const dllm_status status = dllm_options_set_json(
          options, settings.data(), static_cast<int64_t>(settings.size()), nullptr);
      dllm_options_release(options);
      if (status == DLLM_INTERNAL || status == DLLM_UNKNOWN) std::abort();
    }
    if (!asked.tools.is_null()) tool_calls_of(body, asked.tools, "id").called.dump();
  } catch (const Failure&) {
  }
  return 0;
}
