#pragma once
// Shows a canvas while it is denoised: in place and in colour in a terminal, one plain line a step elsewhere.

#include "pictures/terminal.h"

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace dllm::cli {

struct Progress {
  int64_t step = 0, evaluations = 0, open = 0;
  int64_t planned = 0;  // steps in all; 0: not known before
};

class LiveView {
 public:
  // Draws on standard error while something is computed, so that standard output holds the result alone.
  explicit LiveView(std::FILE* to = stderr);

  void show(const std::vector<TokenCell>& cells, const Progress& progress);
  void clear();  // removes the picture
  // A terminal that can be drawn on: no pipe, not TERM=dumb. NO_COLOR keeps the picture and drops the colours.
  bool is_terminal() const { return terminal_; }

 private:
  std::string status(const std::vector<TokenCell>& cells, const Progress& progress);

  std::FILE* to_;
  bool terminal_, colour_;
  size_t lines_ = 0;          // rows the last picture took
  std::vector<float> means_;  // of the steps so far
};

}  // namespace dllm::cli
