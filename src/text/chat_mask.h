#pragma once
// From a marked text to ids, and which of them the assistant says.

#include "text/chat.h"

#include <string>
#include <vector>

namespace dllm::text {

struct MaskRules {
  std::vector<bool> assistants; // by message
  bool by_generation = false;   // the template marks what is said itself
  std::string opening;          // what stands before an answer: "<|im_start|>assistant\n"; or ""
};

// Special tokens count where every byte of theirs is the template's. Without {% generation %} an
// answer is said from behind the opening to the special token that ends it (templates add thoughts
// and calls around the content, and the model has to say those and the end too).
ChatRow encode_chat(const Tokenizer& tokenizer, const jinja::MarkedText& text,
                    const MaskRules& rules,
                    const Task* task = nullptr);

} // namespace dllm::text
