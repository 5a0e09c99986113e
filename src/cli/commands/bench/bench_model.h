#pragma once
// What dllm bench measures: a model, or the shape of one with random weights.

#include "../../command.h"
#include "bench_cost.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace dllm::cli {

// Shapes of known models, as a config.json; the weights are random.
struct BenchPreset {
  std::string name, sentence, config;
};
const std::vector<BenchPreset>& bench_presets();

struct BenchSubject {
  std::string model; // "preset 135m", a path
  bool random_weights = false;
  Owned<dllm_engine> engine;
  Owned<dllm_model> weights;
  nlohmann::ordered_json about; // dllm_model_describe
  ModelCost cost;
  int64_t threads = 0;
  std::string arithmetic; // of products: f32 where the engine has no choice
  std::string simd;
  bool is_cpu = true;
};

// From --model (a folder, a file, or a config.json alone) or --preset, with --arithmetic and --format.
BenchSubject open_subject(Context& context);

} // namespace dllm::cli
