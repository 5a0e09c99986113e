#pragma once
// Progress of a run on standard error: one line that is rewritten on a terminal, plain lines
// elsewhere.

#include "train/sink.h"

namespace dllm::train {

std::unique_ptr<Sink> make_console_sink(int64_t every);

// "step 120/500 [####....] 24 % loss 3.214 lr 2.9e-04 12.3k tok/s eta 1:05". width: columns of the
// bar, 0: none.
std::string progress_line(const Event& event, const Progress& progress, int width);

} // namespace dllm::train
