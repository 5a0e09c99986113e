#pragma once
// Turns the text of a request into a canvas: a prompt, a conversation, or a text with holes.

#include "base/options.h"
#include "base/task.h"
#include "text/tokenizer.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace dllm::generate {

struct Prompt {
  std::vector<int32_t> canvas; // as in decode::Decoder::add
  std::vector<uint8_t> fixed;  // empty: open positions follow the canvas
  int64_t begin = 0;           // positions before the answer; -1: the canvas has holes
  bool is_chat = false;        // the answer is a text of its own
  std::vector<int32_t> ends;   // tokens that the chat template writes after an answer
};

// Reads prompt, messages or infill of a request. Fails with invalid_argument if more than one of
// them is set, for an infill without a hole, and as Chat for messages.
Prompt make_prompt(const std::shared_ptr<const text::Tokenizer>& tokenizer, const Options& request,
                   const Task* task);

} // namespace dllm::generate
