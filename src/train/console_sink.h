#pragma once
// The progress of a training on standard error. Private to src/train.

#include "train/sink.h"

#include <cstdint>
#include <memory>
#include <string>

namespace dllm::train {

std::unique_ptr<Sink> make_console_sink(int64_t every);

// "step 120 [####....]  24 %  loss 3.214  eta 1:05  12.3k tok/s  lr 2.9e-04": at most `columns`
// wide; what does not fit is left out, the least important first. columns 0: any width, no bar.
std::string progress_line(const Event& event, const Progress& progress, int columns);

} // namespace dllm::train
