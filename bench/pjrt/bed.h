#pragma once
// What the benches of the second engine share: engines on a plugin, and shapes of models.

#include "graph/engine_options.h"
#include "pjrt/engine.h"
#include "step/peer.h"
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

struct ShapeOfRun {
  int64_t layers = 4, hidden = 256, heads = 4, inner = 688, vocab = 2048, batch = 16, length = 128;
};
// quickstart: what scripts/quickstart trains; small: a quarter of it.
inline ShapeOfRun shape_named(const std::string& name) {
  if (name == "small") return {2, 128, 4, 344, 1024, 8, 64};
  return {};
}

inline Json config_of(const ShapeOfRun& shape) {
  return {{"model_type", "qwen3"},
          {"vocab_size", shape.vocab},
          {"hidden_size", shape.hidden},
          {"num_hidden_layers", shape.layers},
          {"num_attention_heads", shape.heads},
          {"num_key_value_heads", shape.heads},
          {"head_dim", shape.hidden / shape.heads},
          {"intermediate_size", shape.inner},
          {"max_position_embeddings", 512},
          {"rms_norm_eps", 1e-6},
          {"rope_theta", 10000.0},
          {"tie_word_embeddings", true},
          {"mask_token_id", shape.vocab - 1}};
}

inline Batch batch_of(const ShapeOfRun& shape, int64_t step) {
  Tensor ids(DType::i32, {shape.batch, shape.length});
  for (int64_t i = 0; i < ids.count(); ++i) {
    ids.mutable_as<int32_t>()[static_cast<size_t>(i)] =
        static_cast<int32_t>((i * 7919 + step * 104729) % (shape.vocab - 1));
  }
  Batch batch;
  batch.set("ids", ids);
  return batch;
}

inline Options plan_options(const ShapeOfRun& shape, const Json& values = Json::object()) {
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

// What bench_pjrt was told.
struct Told {
  std::string plugin, shape = "quickstart";
  int64_t turns = 9;
};
void bench_step(const Told& told);
void bench_layers(const Told& told);
void bench_start(const Told& told);

} // namespace dllm::bench
