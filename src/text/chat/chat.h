#pragma once
// A Chat turns conversations into token rows. A chat template writes the text; special tokens count
// where the template wrote them, not where a message spells them. A row marks the tokens of the
// assistant.

#include "base/json.h"
#include "base/options.h"
#include "text/jinja/template.h"
#include "text/tokenizer.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dllm::text {

// Options of a chat: template, name, add_generation_prompt, tools, variables.
const Schema& chat_schema();

// Fails with failed_precondition when `name` is the name of a template (named_templates.h) and the
// tokenizer lacks special tokens of it. Without these tokens a model cannot end its answers. The
// text of a template is not checked.
void check_template_tokens(const Tokenizer& tokenizer, const std::string& name);

struct ChatRow {
  std::string text;
  std::vector<int32_t> ids;
  std::vector<uint8_t> spoken; // one per id; 1: written by the assistant, 0: given

  std::vector<uint8_t> keep() const; // one per id, the opposite of spoken: 1: given
};

// A tokenizer with one of its templates. Several threads may call row() at once.
class Chat {
public:
  // Fails with failed_precondition when there is no template, else as jinja::Template.
  Chat(std::shared_ptr<const Tokenizer> tokenizer, const Options& options);

  // Renders and encodes a conversation: a list of messages in any form of text/chat/messages.h, or
  // an object with "messages" and optionally "tools" and a text "system". Fails with
  // invalid_argument for other JSON and for messages that the template refuses. Checks the task
  // every few milliseconds.
  ChatRow row(const Json& conversation, const Task* task = nullptr) const;

private:
  jinja::MarkedText render(const jinja::Entries& variables, bool opens, int64_t bytes,
                           const Task* task) const;
  std::string opening(const jinja::Entries& variables, const jinja::MarkedText& text, int64_t bytes,
                      const Task* task) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<const jinja::Template> template_;
  Json tools_, variables_;
  bool opens_; // the row ends where the answer of the assistant begins
};

// How encode_chat() finds the tokens of the assistant.
struct MaskRules {
  std::vector<bool> assistants; // by message; true: a message of the assistant
  bool by_generation = false;   // the template has {% generation %} around answers
  std::string opening;          // the text before an answer, "<|im_start|>assistant\n", or ""
};

// Encodes a marked text and marks the assistant's tokens. A special token counts where the template
// wrote all its bytes. Without {% generation %} an answer begins after the opening and includes the
// special token that ends it. An answer therefore also includes thoughts and calls that the
// template writes around the content, because the model must write them too.
ChatRow encode_chat(const Tokenizer& tokenizer, const jinja::MarkedText& text,
                    const MaskRules& rules, const Task* task = nullptr);

} // namespace dllm::text
