#pragma once
// What the benches of the second engine share: engines on a plugin, and shapes of models.

#include "graph/engine.h"
#include "pjrt/engine.h"
#include "step/peer.h"
#include "step/training_model.h"
#include "train/plan.h"
#include "train/trainer.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

namespace dllm::bench {

// cache: a folder, or "off".
inline std::shared_ptr<graph::Engine> engine_on(const std::string& plugin,
                                                const std::string& cache) {
  Options options(graph::engine_schema());
  options.set_str("kind", "pjrt");
  options.set_str("plugin", plugin);
  options.set_str("pjrt.cache", cache);
  return pjrt::make_engine(options);
}

// quickstart: what scripts/quickstart trains; small: a quarter of it.
inline TrainingSizes shape_named(const std::string& name) {
  if (name == "small") return {2, 128, 4, 344, 1024, 8, 64};
  return {};
}

inline Options plan_options(const TrainingSizes& shape, const Json& values = Json::object()) {
  Options options(model::plan_schema());
  options.set_json(Json{{"what", "train"}, {"batch", shape.batch}, {"length", shape.length}});
  options.set_json(values);
  return options;
}

// Of this process alone; the bench removes it.
inline std::string scratch_folder(const std::string& what) {
  return fmt::format("{}/dllm_bench_{}_{}", std::filesystem::temp_directory_path().string(), what,
                     getpid());
}

inline double middle(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The arguments of bench_pjrt.
struct Args {
  std::string plugin, shape = "quickstart";
  int64_t turns = 9;
};
void bench_step(const Args& args);
void bench_layers(const Args& args);
void bench_start(const Args& args);

} // namespace dllm::bench
