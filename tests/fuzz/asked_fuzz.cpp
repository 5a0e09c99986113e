// Any bytes as the body of a request to dllm serve: settings that the library takes or refuses, or
// a Failure with a status. Nothing else is thrown, since it would be an internal error for clients.
// Any bytes as an answer of a model that may call functions, too.
#include "command.h"
#include "dllm/dllm.h"
#include "serve/asked.h"
#include "serve/tool_calls.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

// Reads an answer as the server does.
static void read_answer(const std::string& answer, const nlohmann::ordered_json& tools) {
  using Json = nlohmann::ordered_json;
  const auto calls = dllm::cli::tool_calls_of(answer, tools, "id");
  calls.called.dump(-1, ' ', false, Json::error_handler_t::replace);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dllm::cli;
  using Json = nlohmann::ordered_json;
  if (size == 0 || size > 8192) return 0;
  const std::string body(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 4 == 3) {
    read_answer(body, Json::parse(R"([{"type": "function", "function": {"name": "f"}}])"));
    return 0;
  }
  const auto kind = static_cast<AskKind>(data[0] % 4);
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
    if (!asked.tools.is_null()) read_answer(body, asked.tools);
  } catch (const Failure&) {
  }
  return 0;
}
