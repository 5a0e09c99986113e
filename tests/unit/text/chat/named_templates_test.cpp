#include "text/chat/named_templates.h"

#include "../tokenizer/byte_tokenizer.h"
#include "base/error.h"
#include "text/chat/chat.h"

#include <gtest/gtest.h>

namespace dllm::text {
namespace {

Options chat_options(const std::string& name) {
  Options options(chat_schema());
  options.set_str("template", name);
  options.set_i64("add_generation_prompt", 1);
  return options;
}

TEST(NamedTemplates, EachOpensAnAnswerAndNamesItsTokens) {
  using Tokens = std::vector<std::string>;
  const Tokens chatml = {"<|im_start|>", "<|im_end|>"},
               llama = {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
                        "<|eot_id|>"};
  const std::tuple<const char*, Tokens, std::string> rows[] = {
      {"chatml", chatml, "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"},
      {"llama3", llama,
       "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>"
       "<|start_header_id|>assistant<|end_header_id|>\n\n"},
      {"qwen", chatml,
       "<|im_start|>system\nYou are a helpful "
       "assistant.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"
       "<|im_start|>assistant\n"},
      {"alpaca", {}, alpaca_prompt("hi", "")}};
  ASSERT_EQ(std::size(rows), named_templates().size());
  for (const auto& [name, tokens, text] : rows) {
    EXPECT_EQ(template_tokens(template_text(name)).size(), tokens.size()) << name;
    const auto tokenizer = make_byte_tokenizer();
    for (const std::string& token : tokens) tokenizer->add_special_token(token);
    const Chat chat(tokenizer, chat_options(name));
    EXPECT_EQ(chat.row(parse_json(R"([{"role": "user", "content": "hi"}])", "test")).text, text);
  }
}

TEST(NamedTemplates, QwenWritesToolsCallsAndResults) {
  const auto tokenizer = make_byte_tokenizer();
  for (const char* token : {"<|im_start|>", "<|im_end|>"}) tokenizer->add_special_token(token);
  Options options(chat_schema());
  options.set_str("template", "qwen");
  const Chat chat(tokenizer, options);
  const std::string text = chat.row(parse_json(R"({"tools": [{"name": "add"}], "messages": [
          {"role": "system", "content": "S"}, {"role": "user", "content": "q"},
          {"role": "assistant", "content": null, "tool_calls": [
            {"type": "function", "function": {"name": "add", "arguments": {"a": 1}}}]},
          {"role": "tool", "content": "1"}, {"role": "tool", "content": "2"},
          {"role": "assistant", "content": "a"}]})",
                                               "test"))
                               .text;
  for (const char* part :
       {"system\nS\n\n# Tools", "<tools>\n{\"name\": \"add\"}\n</tools>",
        "assistant\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": "
        "1}}\n</tool_call><|im_end|>",
        "<|im_start|>user\n<tool_response>\n1\n</tool_response>\n<tool_response>\n2\n"
        "</tool_response><|im_end|>\n<|im_start|>assistant\na<|im_end|>"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(NamedTemplates, AnUnknownNameListsTheNamesAndATextIsTaken) {
  EXPECT_EQ(template_text("{{ messages }}"), "{{ messages }}");
  for (const char* word : {"chatlm", "nothing like it", ""}) {
    try {
      template_text(word);
      ADD_FAILURE() << word;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::not_found);
      EXPECT_NE((error.text() + error.hint()).find("chat"), std::string::npos) << error.hint();
    }
  }
}

TEST(NamedTemplates, TokensThatTheTokenizerLacksAreNamed) {
  const auto tokenizer = make_byte_tokenizer();
  tokenizer->add_special_token("<|im_end|>");
  for (const char* name : {"chatml", "qwen"}) {
    try {
      Chat(tokenizer, chat_options(name));
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::failed_precondition);
      EXPECT_NE(error.text().find("bytes has no tokens <|im_start|>, which"), std::string::npos)
          << error.text();
    }
  }
  Chat(tokenizer, chat_options("alpaca"));
  Chat(tokenizer, chat_options(template_text("chatml"))); // a text is taken as it is
}

TEST(NamedTemplates, TokensOfATextAreFound) {
  using Tokens = std::vector<std::string>;
  EXPECT_EQ(template_tokens("a<|b|>{{ '<|c_1|>' }}<|b|><|no end <||> <|x y|> <|"),
            (Tokens{"<|b|>", "<|c_1|>"}));
}

} // namespace
} // namespace dllm::text
