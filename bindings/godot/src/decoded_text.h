#pragma once
// A text that a model decodes, a slice per frame, on the thread of the game.

#include <dllm/dllm.hpp>

namespace dllm_godot {

// Every method may throw dllm::Error.
class DecodedText {
public:
  // A folder or a .gguf file of the file system, with its tokenizer. `options`: JSON of kind "decoder", "" for defaults.
  void load(const std::string& path, int64_t threads, const std::string& options);

  // Starts a text; one that is not finished is discarded.
  void say(const std::string& prompt, int64_t seed);

  // Decodes for `budget_ms` milliseconds and at most one operation of the model longer. False: the text is finished.
  bool step_for(double budget_ms);

  bool is_busy() const { return is_busy_; }
  // What is decided behind the prompt so far, without open positions.
  const std::string& text() const { return text_; }

private:
  void need_model() const;

  dllm::Model model_;
  dllm::Tokenizer tokenizer_;
  dllm::Decoder decoder_;
  size_t given_ = 0; // positions of the prompt
  bool is_busy_ = false;
  std::string text_;
};

} // namespace dllm_godot
