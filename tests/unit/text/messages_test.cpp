#include "text/messages.h"

#include "base/error.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace dllm::text {
namespace {

TEST(Messages, HaveOneForm) {
  const std::pair<const char*, const char*> rows[] = {
      {R"([{"role": "human", "content": "a"}, {"role": "gpt", "content": "b"}])",
       R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"}])"},
      {R"([{"role": "USER", "content": null, "name": null}])", R"([{"role":"user"}])"},
      {R"([{"role": "model", "content": [{"type": "text", "text": "hi "}, {"type": "text", "text": "you"}]}])",
       R"([{"role":"assistant","content":"hi you"}])"},
      {R"([{"role": "critic", "content": "", "weight": 0.5}])",
       R"([{"role":"critic","content":"","weight":0.5}])"},
      {R"([{"role": "assistant", "content": []}])", R"([{"role":"assistant","content":""}])"},
      {R"({"no": "list"})", R"({"no":"list"})"},
  };
  for (const auto& [given, plain] : rows)
    EXPECT_EQ(plain_messages(parse_json(given, "test")).dump(), plain);
}

TEST(Messages, APartThatIsNoTextIsNamed) {
  try {
    plain_messages(parse_json(
        R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}]}])",
        "test"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.text(), "messages[0]: content[1] is image_url, not a text");
  }
}

} // namespace
} // namespace dllm::text
