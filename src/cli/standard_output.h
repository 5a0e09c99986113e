#pragma once
// Standard output is a result: one that could not be written is a failure of the command.

namespace dllm::cli {

// From here on a closed reader ends writing, not the program: a training run still saves its state.
void watch_standard_output();
// Writes what is left. code, or kFailed where something could not be written; quietly when the reader went away.
int finish_standard_output(int code);

}  // namespace dllm::cli
