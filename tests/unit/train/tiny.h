#pragma once
// A tiny model, a tiny text and a source of batches, for the tests of training.

#include "cpu/engine.h"
#include "graph/engine.h"
#include "train/trainer.h"

#include <nlohmann/json.hpp>

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dllm::train {

inline std::shared_ptr<graph::Engine>
tiny_engine(int64_t threads = 1, const char* thread_pool = "own", const char* arithmetic = "f32") {
  Options options(graph::engine_schema());
  options.set_i64("threads", threads);
  options.set_str("thread_pool", thread_pool);
  options.set_str("arithmetic", arithmetic);
  return cpu::make_engine(options);
}

// All ranks of a mesh on threads of this process.
inline std::shared_ptr<graph::Engine> mesh_engine(const std::string& mesh) {
  Options options(graph::engine_schema());
  options.set_i64("threads", 1);
  options.set_str("mesh", mesh);
  return cpu::make_engine(options);
}

inline Json tiny_config(bool tied = true) {
  return {{"model_type", "qwen3"},
          {"vocab_size", 31},
          {"hidden_size", 24},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"head_dim", 6},
          {"intermediate_size", 40},
          {"max_position_embeddings", 64},
          {"rms_norm_eps", 1e-6},
          {"rope_theta", 10000.0},
          {"tie_word_embeddings", tied},
          {"initializer_range", 0.1},
          {"mask_token_id", 30}};
}

inline std::shared_ptr<model::Model> tiny_model(const std::shared_ptr<graph::Engine>& engine,
                                                bool tied = true) {
  return model::new_model(engine, tiny_config(tied), Options(model::model_schema()));
}

inline std::shared_ptr<model::Model> tiny_model(int64_t threads = 1, bool tied = true) {
  return tiny_model(tiny_engine(threads), tied);
}

// Rows of one text of period 10, cut at places that depend on the position: easy to learn, never
// ending but for `end`.
class TextSource final : public BatchSource {
public:
  explicit TextSource(int64_t batch = 4, int64_t length = 16, int64_t end = 1 << 30)
      : batch_(batch), length_(length), end_(end) {}
  std::optional<Batch> next() override {
    if (position_ >= end_) return std::nullopt;
    Tensor ids(DType::i32, {batch_, length_});
    for (int64_t b = 0; b < batch_; ++b) {
      const int64_t start = (position_ * batch_ + b) * 7 % 10;
      for (int64_t i = 0; i < length_; ++i) {
        ids.mutable_as<int32_t>()[static_cast<size_t>(b * length_ + i)] =
            static_cast<int32_t>((start + i) % 10 * 2 + 3);
      }
    }
    ++position_;
    Batch made;
    made.set("ids", ids);
    return made;
  }
  int64_t position() const override { return position_; }
  void seek(int64_t position) override { position_ = position; }

private:
  int64_t batch_, length_, end_;
  int64_t position_ = 0;
};

inline Options trainer_options(const Json& values = Json::object()) {
  Options options(trainer_schema());
  options.set_json(Json{{"lr", 3e-3}, {"warmup", 2}, {"seed", 7}});
  options.set_json(values);
  return options;
}

inline std::unique_ptr<Trainer> tiny_trainer(const Json& values = Json::object(),
                                             int64_t threads = 1,
                                             const std::string& objective = "mdlm") {
  return std::make_unique<Trainer>(tiny_model(threads), noise::make_objective(objective),
                                   trainer_options(values));
}

inline std::vector<double> losses_of(Trainer& trainer, TextSource& source, int64_t steps) {
  std::vector<double> losses;
  for (int64_t i = 0; i < steps; ++i) losses.push_back(trainer.step(*source.next()));
  return losses;
}

// A batch whose loss is not finite: two weights that overflow together.
inline Batch poisoned() {
  Batch batch;
  batch.set("ids", Tensor::from(Shape{1, 4}, std::vector<int32_t>{30, 3, 30, 5}));
  batch.set("targets", Tensor::from(Shape{1, 4}, std::vector<int32_t>{3, -1, 5, -1}));
  constexpr float kMost = std::numeric_limits<float>::max();
  batch.set("weights", Tensor::from(Shape{1, 4}, std::vector<float>{kMost, 0, kMost, 0}));
  return batch;
}

// Every weight, by name, as it is on the engine.
inline std::map<std::string, std::vector<float>> weights_of(const model::Model& model) {
  std::map<std::string, std::vector<float>> made;
  for (const std::string& name : model.params().names()) {
    const Tensor tensor = model.params().read(name).to(DType::f32);
    made[name].assign(tensor.as<float>().begin(), tensor.as<float>().end());
  }
  return made;
}

inline std::map<std::string, std::vector<float>> weights_of(const Trainer& trainer) {
  return weights_of(*trainer.model("live"));
}

} // namespace dllm::train
