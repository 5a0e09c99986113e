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
      {R"([{"role": "user", "content": {"type": "text", "text": "hi"}}])",
       R"([{"role":"user","content":"hi"}])"},
      {R"([{"role": "user", "content": ["a", {"type": "input_text", "text": "b"}]}])",
       R"([{"role":"user","content":"ab"}])"},
      {R"([{"role": "user", "content": 5}])", R"([{"role":"user","content":5}])"},
      {R"({"no": "list"})", R"({"no":"list"})"},
  };
  for (const auto& [given, plain] : rows)
    EXPECT_EQ(plain_messages(parse_json(given, "test")).dump(), plain);
}

TEST(Messages, APartThatIsNoTextIsNamed) {
  const std::pair<const char*, const char*> rows[] = {
      {R"([{"type": "text", "text": "a"}, {"type": "image_url"}])", "content[1] is image_url"},
      {R"({"type": "image"})", "content[0] is image"},
      {R"({"b": 1})", "content[0] is object"},
      {R"([[{"type": "text", "text": "a"}]])", "content[0] is array"}};
  for (const auto& [content, named] : rows) {
    try {
      plain_messages(
          parse_json(R"([{"role": "user", "content": )" + std::string(content) + "}]", "test"));
      ADD_FAILURE() << content;
    } catch (const Error& error) {
      EXPECT_EQ(error.text(), "messages[0]: " + std::string(named) + ", not a text");
    }
  }
}

} // namespace
} // namespace dllm::text
