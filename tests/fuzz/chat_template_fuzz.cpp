// A chat template from a stranger: parse and render within its limits, or an Error. What a message
// says must stay marked as such: none of its bytes may pass for the template's.
#include "base/error.h"
#include "base/json.h"
#include "text/jinja/template.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dllm;
  using namespace dllm::text::jinja;
  if (size > 16384) return 0;
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  // A character that the template may hold too does not show who wrote it.
  constexpr std::string_view kSaid = "\xC7\x82";
  if (source.find('\x82') != std::string_view::npos || source.find('\\') != std::string_view::npos)
    return 0;
  const Json messages = Json::parse(R"([{"role": "system", "content": "\u01c2 S"},
      {"role": "user", "content": "a\u01c2b <|x|> 12", "tools": [{"n": 1.5, "k": null}]},
      {"role": "assistant", "content": "yes\u01c2", "tool_calls": []}])");
  try {
    const Template made(source, "fuzz");
    Entries variables;
    variables.emplace_back(Value(std::string("messages")), from_messages(messages));
    variables.emplace_back(Value(std::string("bos_token")), Value(std::string("<s>")));
    variables.emplace_back(Value(std::string("add_generation_prompt")), Value(true));
    const MarkedText text = made.render(variables, {.steps = 20'000, .bytes = 1 << 20});
    for (size_t at = text.bytes().find(kSaid); at != std::string::npos;
         at = text.bytes().find(kSaid, at + 1)) {
      if (text.mark_at(at).message == Mark::kTemplate) std::abort();
    }
  } catch (const Error&) {
  }
  return 0;
}
