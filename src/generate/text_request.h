#pragma once
// A request for text that was read: its canvas, its settings and what ends it.

#include "base/options.h"
#include "generate/constraints/answer_constraint.h"
#include "generate/defaults.h"
#include "generate/prompt.h"
#include "text/answer/text_ends.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dllm::generate {

// It belongs to one decoder, because its constraint keeps the sets of the last canvas.
struct TextRequest {
  Prompt prompt;
  std::vector<int32_t> ends;                       // end tokens
  std::shared_ptr<const text::TextEnds> text_ends; // rules that end the answer by its text
  int64_t seed;
  std::string policy;
  FileSettings from_file;
  Options decoding;                                   // of kind "decoder:<policy>"
  Options slot;                                       // of kind "slot"
  std::shared_ptr<const AnswerConstraint> constraint; // null: any text
};

} // namespace dllm::generate
