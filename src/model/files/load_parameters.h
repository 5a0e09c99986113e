#pragma once
// Reads the weights of one network from files into the model, in the formats that options choose.

#include "base/options.h"
#include "base/task.h"
#include "model/files/weights.h"
#include "model/model.h"
#include "model/params/param_map.h"
#include "model/plan.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dllm::model {

// The bytes of files that a task counts before and after those of one network.
struct OtherBytes {
  int64_t before = 0, later = 0;
};

// Returns the formats in which load_parameters keeps the stacks `specs` where option dtype leaves
// them open. It reads no weights. `weights` must live as long as the result.
FormOf kept_formats(const WeightSource& weights, const std::vector<ParamSpec>& specs);

// Loads each parameter in the format of the option. Where the option leaves it open, the format is
// the one that a run had (`run_formats`, by name), else the file's. Adds the bytes of the files to
// `count.before`.
void load_parameters(Model& model, const std::vector<ParamSpec>& specs, const WeightSource& weights,
                     const Options& options, const std::map<std::string, std::string>& run_formats,
                     OtherBytes& count, Task* task);

} // namespace dllm::model
