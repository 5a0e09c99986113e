#pragma once
// A tiny model and rows of tokens for tests of objectives, and the check of a gradient by
// differences.

#include "cpu/engine.h"
#include "graph/engine.h"
#include "model/model.h"
#include "noise/loss/evaluate.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

namespace dllm::noise {

constexpr int32_t kTinyMask = 22;

inline std::shared_ptr<graph::Engine> tiny_engine() {
  return cpu::make_engine(Options(graph::engine_schema()));
}

inline std::shared_ptr<model::Model> tiny_network(const std::shared_ptr<graph::Engine>& engine,
                                                  int64_t seed = 0, int64_t vocab = 23,
                                                  bool tied = false) {
  const Json config = {{"model_type", "qwen3"},
                       {"vocab_size", vocab},
                       {"hidden_size", 16},
                       {"num_hidden_layers", 2},
                       {"num_attention_heads", 4},
                       {"num_key_value_heads", 2},
                       {"head_dim", 4},
                       {"intermediate_size", 20},
                       {"max_position_embeddings", 64},
                       {"rms_norm_eps", 1e-6},
                       {"rope_theta", 10000.0},
                       {"tie_word_embeddings", tied},
                       {"initializer_range", 0.4},
                       {"mask_token_id", kTinyMask}};
  Options options(model::model_schema());
  options.set_i64("seed", seed);
  return model::new_model(engine, config, options);
}

inline std::shared_ptr<model::Model> tiny_model(int64_t vocab = 23) {
  return tiny_network(tiny_engine(), 0, vocab, true);
}

// Rows `first`, first + 1, ... of an update of `total` rows.
inline Batch tiny_rows(int64_t batch, int64_t seq, int64_t first = 0, int64_t total = -1) {
  Tensor ids(DType::i32, {batch, seq});
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < seq; ++i) {
      ids.mutable_as<int32_t>()[static_cast<size_t>(b * seq + i)] =
          static_cast<int32_t>(((first + b) * 5 + i * 7) % 22);
    }
  }
  Batch made;
  made.set("ids", ids);
  if (total >= 0) made.set("rows", Tensor::from(Shape{2}, std::vector<int64_t>{first, total}));
  return made;
}

inline ObjectiveRef tiny_objective(const std::string& name, const Json& settings = Json::object()) {
  Options options(objective_schema(name));
  options.set_json(settings);
  return make_objective(name, nullptr, options);
}

// Along its gradient the loss of a prepared batch rises by the gradient's norm, for every
// parameter. h: the step of differences of fourth order; float32 rounding of the loss allows
// smaller ones where it is sharp alone. Parameters whose names begin with `start` are checked.
inline void expect_gradient(model::Model& model, LossRunner& runner, const Objective& objective,
                            const Batch& prepared, double h = 1e-2, const std::string& start = "") {
  const LossGradients got = loss_gradients(model, objective, prepared);
  for (const auto& [name, gradient] : got.gradients) {
    if (!name.starts_with(start)) continue;
    double norm = 0;
    for (const float value : gradient.as<float>()) norm += static_cast<double>(value) * value;
    norm = std::sqrt(norm);
    if (norm < 1e-3) continue;
    const Tensor kept = model.params().read(name).to(DType::f32).clone();
    const auto loss_at = [&, &name = name, &gradient = gradient](double step) {
      Tensor moved = kept.clone();
      for (size_t i = 0; i < moved.as<float>().size(); ++i)
        moved.mutable_as<float>()[i] += static_cast<float>(step * gradient.as<float>()[i] / norm);
      model.params().write(name, moved);
      return runner.run(prepared, 0, 0, nullptr).mean();
    };
    const double slope =
        (8 * (loss_at(h) - loss_at(-h)) - (loss_at(2 * h) - loss_at(-2 * h))) / (12 * h);
    model.params().write(name, kept);
    EXPECT_NEAR(slope, norm, 4e-3 * norm + 1e-3) << name;
  }
}

} // namespace dllm::noise
