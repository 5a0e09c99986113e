#pragma once
// Standard output is a result: one that could not be written is a failure of the command.

namespace dllm::cli {

// From here on a reader that went away ends writing, not the program: a training run saves what it has.
void watch_standard_output();
// Writes what is left. code, or kFailed where something could not be written; quietly when the reader went away.
int finish_standard_output(int code);

}  // namespace dllm::cli
