#include "text/chat/messages.h"

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
      {R"([{"from": "human", "value": "a"}, {"from": "gpt", "value": "b", "weight": null}])",
       R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"}])"},
      {R"([{"role": "user", "from": "x", "content": "a", "value": 1}])",
       R"([{"role":"user","from":"x","content":"a","value":1}])"},
      {R"([{"from": "gpt", "value": "b", "role": null, "content": null}])",
       R"([{"role":"assistant","content":"b"}])"},
      {R"(["a", "b", "c"])",
       R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}])"},
      {R"([{"role": "tool", "content": "a"}, {"from": "observation", "value": "b"}])",
       R"([{"role":"tool","content":"a"},{"role":"observation","content":"b"}])"},
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

TEST(Messages, AMessageThatSaysNothingIsNamed) {
  const std::pair<const char*, const char*> bad[] = {
      {R"({"role": "user"})", "messages[1] has no content; it has role"},
      {R"({"role": "user", "contents": "a"})", "messages[1] has no content; it has role, contents"},
      {R"({"from": "human", "text": "a"})", "messages[1] has no content; it has from, text"}};
  for (const auto& [message, named] : bad) {
    const std::string text = R"([{"role": "system", "content": ""}, )" + std::string(message) + "]";
    try {
      plain_messages(parse_json(text, "test"));
      ADD_FAILURE() << message;
    } catch (const Error& error) {
      EXPECT_EQ(error.text(), named);
      EXPECT_NE(error.hint(), "");
    }
  }
  for (const char* good :
       {R"({"role": "user", "content": null})", R"({"from": "gpt", "value": null})",
        R"({"role": "assistant", "tool_calls": []})",
        R"({"role": "assistant", "reasoning_content": "a"})"}) {
    EXPECT_NO_THROW(plain_messages(parse_json("[" + std::string(good) + "]", "test"))) << good;
  }
}

} // namespace
} // namespace dllm::text
