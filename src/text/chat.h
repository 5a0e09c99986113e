#pragma once
// Conversations as token rows: a chat template writes the text, the template's own special tokens
// count, those a message spells do not, and what the assistant says is marked.

#include "base/json.h"
#include "base/options.h"
#include "text/jinja/template.h"
#include "text/tokenizer.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dllm::text {

// template, name, add_generation_prompt, tools, variables.
const Schema& chat_schema();

struct ChatRow {
  std::string text;
  std::vector<int32_t> ids;
  std::vector<uint8_t> spoken; // one per id; 1: the assistant says it, 0: given

  std::vector<uint8_t> keep() const; // one per id; 1: given, as rows of a dataset mark it
};

// A tokenizer with one of its templates. Many threads may render at once.
class Chat {
public:
  // Fails with failed_precondition when there is no template, else as jinja::Template.
  Chat(std::shared_ptr<const Tokenizer> tokenizer, const Options& options);

  // A list of messages, or an object with "messages" and perhaps "tools". Fails with
  // invalid_argument for anything else and for messages the template refuses.
  // The task is checked every few milliseconds.
  ChatRow row(const Json& conversation, const Task* task = nullptr) const;

private:
  jinja::MarkedText render(const jinja::Entries& variables, bool opens, int64_t bytes,
                           const Task* task) const;
  std::string opening(const jinja::Entries& variables, const jinja::MarkedText& text,
                      int64_t bytes, const Task* task) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<const jinja::Template> template_;
  Json tools_, variables_;
  bool opens_; // the row ends where the assistant begins to speak
};

} // namespace dllm::text
