#pragma once
// A BenchSubject is the model that dllm bench measures; its weights may be random.

#include "../../command.h"
#include "bench_cost.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace dllm::cli {

// The shape of a known model, as a config.json. The weights are random.
struct BenchPreset {
  std::string name, sentence, config;
};
const std::vector<BenchPreset>& bench_presets();

struct BenchSubject {
  std::string model; // "preset 135m", or a path
  bool random_weights = false;
  Owned<dllm_engine> engine;
  Owned<dllm_model> weights;
  nlohmann::ordered_json about; // dllm_model_describe
  ModelCost cost;
  int64_t threads = 0;
  std::string arithmetic; // type of products; f32 when the engine has no such option
  std::string simd;
  bool is_cpu = true;
};

// Opens the model of --model (a folder, a file, or only a config.json) or --preset, with
// --arithmetic and --format.
BenchSubject open_subject(Context& context);

} // namespace dllm::cli
