#pragma once
// Writes the trajectories of the rows of a dataset to a file, which may be continued.

#include "decode/trajectory/extractor.h"
#include "text/data/dataset.h"

#include <cstdint>
#include <memory>
#include <string>

namespace dllm::decode {

// Appends a line for each row of the dataset that the file does not have. Lines are written as soon
// as their rows are done, so a stopped run goes on. model: null for method left_to_right. options:
// of trajectory_schema(). Progress counts rows. Returns the number of rows that were written. Fails
// as text::TrajectoryFile and TrajectoryExtractor: a file that was made with another teacher, data
// or options is not continued.
int64_t extract_trajectories(const text::Dataset& data, std::shared_ptr<model::Model> model,
                             const std::string& path, const Options& options, Task* task);

} // namespace dllm::decode
