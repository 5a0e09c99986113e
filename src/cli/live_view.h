#pragma once
// Shows a canvas while it is denoised: in place and in colour in a terminal, one plain line a step elsewhere.

#include "session.h"

#include <string>

namespace dllm::cli {

class LiveView {
 public:
  // tokenizer outlives the view. Draws on standard error, so that standard output holds the result alone.
  explicit LiveView(const dllm_tokenizer* tokenizer);
  ~LiveView();  // leaves the cursor below the picture

  void show(const Canvas& canvas, int64_t step, double open);
  void clear();  // takes the picture away
  bool is_terminal() const { return terminal_; }

 private:
  std::string render(const Canvas& canvas) const;
  void draw(const std::string& picture, const std::string& status);

  const dllm_tokenizer* tokenizer_;
  bool terminal_;
  int lines_ = 0;  // rows the last picture took
};

}  // namespace dllm::cli
