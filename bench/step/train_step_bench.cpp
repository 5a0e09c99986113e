// bench_train_step [quickstart|gpt2] [steps]: one masked-diffusion training step (forward,
// backward, AdamW) of two shapes. Prints tokens/s, the share of the measured f32 peak, and the
// ratio to the same step in PyTorch when that is installed.

#include "base/parallel.h"
#include "cpu/engine.h"
#include "train/trainer.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using namespace dllm;

struct ShapeOfRun {
  const char* name;
  int64_t layers, hidden, heads, inner, vocab, batch, length;
};
// gpt2: GPT-2's 124M parameters. quickstart: what scripts/quickstart trains.
constexpr ShapeOfRun kShapes[] = {{"quickstart", 4, 256, 4, 688, 2048, 16, 128},
                                  {"gpt2", 12, 768, 12, 3072, 50304, 2, 256}};

Json config_of(const ShapeOfRun& shape) {
  if (std::string(shape.name) == "gpt2") {
    return {{"model_type", "gpt2"},
            {"vocab_size", shape.vocab},
            {"n_embd", shape.hidden},
            {"n_layer", shape.layers},
            {"n_head", shape.heads},
            {"n_positions", 1024},
            {"n_inner", shape.inner},
            {"layer_norm_epsilon", 1e-5},
            {"activation_function", "gelu_new"},
            {"tie_word_embeddings", true},
            {"mask_token_id", shape.vocab - 1}};
  }
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

Batch batch_of(const ShapeOfRun& shape, int64_t step) {
  Tensor ids(DType::i32, {shape.batch, shape.length});
  for (int64_t i = 0; i < ids.count(); ++i) {
    ids.mutable_as<int32_t>()[static_cast<size_t>(i)] =
        static_cast<int32_t>((i * 7919 + step * 104729) % (shape.vocab - 1));
  }
  Batch batch;
  batch.set("ids", ids);
  return batch;
}

// tokens/s that torch_step.py prints, or 0.
double torch_rate(const ShapeOfRun& shape, int64_t steps) {
  const std::string command = fmt::format(
      "python3 {} {} {} {} {} {} {} {} {} 2>/dev/null", DLLM_TORCH_STEP, shape.layers, shape.hidden,
      shape.heads, shape.inner, shape.vocab, shape.batch, shape.length, steps);
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return 0;
  double rate = 0;
  if (std::fscanf(pipe, "%lf", &rate) != 1) rate = 0;
  pclose(pipe);
  return rate;
}

void run(const ShapeOfRun& shape, int64_t steps) {
  const auto engine = cpu::make_engine(Options(cpu::engine_schema()));
  const auto model = model::new_model(engine, config_of(shape), Options(model::model_schema()));
  train::Trainer trainer(model, noise::make_objective("mdlm"), Options(train::trainer_schema()));
  trainer.step(batch_of(shape, 0)); // compiles
  std::vector<double> rates, shares;
  for (int64_t step = 1; step <= steps; ++step) {
    trainer.step(batch_of(shape, step));
    rates.push_back(trainer.metric("tokens_per_second"));
    shares.push_back(trainer.metric("mfu"));
  }
  std::sort(rates.begin(), rates.end());
  std::sort(shares.begin(), shares.end());
  const double median = rates[rates.size() / 2], share = shares[shares.size() / 2];
  std::printf("%-10s %.1fM parameters, batch %ld x %ld: %.0f tokens/s (best %.0f), mfu %.2f, "
              "memory %.0f MB\n",
              shape.name, static_cast<double>(model->params().parameter_count()) / 1e6,
              static_cast<long>(shape.batch), static_cast<long>(shape.length), median, rates.back(),
              share, trainer.metric("memory") / 1e6);
  const double torch = torch_rate(shape, steps);
  if (torch > 0)
    std::printf("%-10s PyTorch %.0f tokens/s: ratio %.2f\n", shape.name, torch, median / torch);
  else
    std::printf("%-10s PyTorch: absent (python3 with torch)\n", shape.name);
}

} // namespace

int main(int argc, char** argv) {
  const std::string wanted = argc > 1 ? argv[1] : "quickstart";
  const int64_t steps = argc > 2 ? std::max(1L, std::atol(argv[2])) : 5;
  for (const ShapeOfRun& shape : kShapes) {
    if (wanted == shape.name || wanted == "all") run(shape, steps);
  }
  return 0;
}
