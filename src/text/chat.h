#pragma once
// Conversations as token rows: a chat template writes the text, the template's own special tokens
// count, those a message spells do not, and the messages of the assistant are marked.

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
  std::vector<uint8_t> spoken; // one per id; 1: of the assistant, 0: given

  std::vector<uint8_t> keep() const; // one per id; 1: given, as rows of a dataset mark it
};

// A tokenizer with one of its templates. Many threads may render at once.
class Chat {
public:
  // Fails with failed_precondition when there is no template, else as jinja::Template.
  Chat(std::shared_ptr<const Tokenizer> tokenizer, const Options& options);

  // A list of messages in any form of text/messages.h, or an object with "messages" and perhaps "tools". Fails with
  // invalid_argument for anything else and for messages the template refuses.
  // The task is checked every few milliseconds.
  ChatRow row(const Json& conversation, const Task* task = nullptr) const;

private:
  jinja::MarkedText render(const jinja::Entries& variables, bool opens, int64_t bytes,
                           const Task* task) const;
  std::string opening(const jinja::Entries& variables, const jinja::MarkedText& text, int64_t bytes,
                      const Task* task) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<const jinja::Template> template_;
  Json tools_, variables_;
  bool opens_; // the row ends where the assistant begins to speak
};

// From a marked text to ids, and which of them are the assistant's.

struct MaskRules {
  std::vector<bool> assistants; // by message
  bool by_generation = false;   // the template marks the answers itself
  std::string opening;          // the text before an answer: "<|im_start|>assistant\n"; or ""
};

// Special tokens count where all their bytes are the template's. Without {% generation %} an
// answer goes from the end of the opening to the special token that ends it (templates add thoughts
// and calls around the content, and the model has to write those and the end too).
ChatRow encode_chat(const Tokenizer& tokenizer, const jinja::MarkedText& text,
                    const MaskRules& rules, const Task* task = nullptr);

} // namespace dllm::text
