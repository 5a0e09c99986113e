#pragma once
// Prints the progress of a training run on standard error. Private to src/train.

#include "train/sinks/sink.h"

#include <cstdint>
#include <memory>
#include <string>

namespace dllm::train {

std::unique_ptr<Sink> make_console_sink(const std::string& target, const Options& options);

// Returns a line such as "step 120 [####....]  24 %  loss 3.214  eta 1:05  12.3k tok/s  lr 2.9e-04"
// of at most `columns` columns. The least important items are left out first when the line is too
// long. With 0 columns the width is not limited and there is no bar.
std::string progress_line(const Event& event, const Progress& progress, int columns);

} // namespace dllm::train
