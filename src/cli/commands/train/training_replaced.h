#pragma once
// ReplacedRun keeps the run that dllm train --fresh replaces until the new one can train.

#include <string>

namespace dllm::cli {

// The files of a run that a new one in the same folder replaces: checkpoints, tokenizer, metrics,
// examples and settings. They are aside in the folder "replaced" until the new run has computed a
// step.
class ReplacedRun {
public:
  explicit ReplacedRun(const std::string& root);
  // Removes the files of the new run and moves the old ones back, unless remove() was called.
  ~ReplacedRun();
  ReplacedRun(const ReplacedRun&) = delete;
  ReplacedRun& operator=(const ReplacedRun&) = delete;
  void remove();

private:
  std::string root_; // "": removed
};

// Moves the files of a replaced run back. A process leaves them there when it is killed before its
// first step. Fails while a process trains in the folder.
void recover_replaced(const std::string& root);

} // namespace dllm::cli
