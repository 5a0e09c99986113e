// bench_train_step [quickstart|gpt2|all] [turns] [threads] [batch] [length] [f32|bf16] [memory]:
// one masked-diffusion training step (forward, backward, AdamW) of two shapes, in turns with the
// same step in PyTorch where that is installed (bf16: autocast). memory: bytes, the trainer's
// option. Prints tokens/s, the share of the measured f32 peak, and the ratio.

#include "base/threads/parallel.h"
#include "cpu/engine.h"
#include "graph/engine.h"
#include "peer.h"
#include "train/trainer.h"
#include "training_model.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace {

using namespace dllm;

struct ShapeOfRun : bench::TrainingSizes {
  const char* name;
};
// gpt2: GPT-2's 124M parameters. quickstart: what scripts/quickstart trains.
constexpr ShapeOfRun kShapes[] = {{{}, "quickstart"}, {{12, 768, 12, 3072, 50304, 4, 128}, "gpt2"}};

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
  return bench::qwen3_config(shape);
}

// The peer's layers have two matrices of `inner` where the gated ones of qwen3 have three.
std::vector<std::string> peer_arguments(const ShapeOfRun& shape, int threads,
                                        const std::string& arithmetic) {
  const bool gated = std::string(shape.name) != "gpt2";
  std::vector<std::string> words;
  for (const int64_t number :
       {shape.layers, shape.hidden, shape.heads, gated ? shape.inner * 3 / 2 : shape.inner,
        shape.vocab, shape.batch, shape.length, static_cast<int64_t>(threads)})
    words.push_back(std::to_string(number));
  words.push_back(arithmetic);
  return words;
}

void run(const ShapeOfRun& shape, int64_t turns, int threads, const std::string& arithmetic,
         int64_t memory) {
  Options engine_options(graph::engine_schema());
  engine_options.set_json(Json{{"threads", threads}, {"arithmetic", arithmetic}});
  const auto engine = cpu::make_engine(engine_options);
  const auto model = model::new_model(engine, config_of(shape), Options(model::model_schema()));
  Options trainer_options(train::trainer_schema());
  trainer_options.set_i64("memory", memory);
  train::Trainer trainer(model, noise::make_objective("mdlm"), trainer_options);
  Peer peer(DLLM_TORCH_STEP, peer_arguments(shape, threads, arithmetic));
  trainer.step(batch_of(shape, 0)); // compiles
  Turns times;
  std::vector<double> shares;
  for (int64_t turn = 1; turn <= turns; ++turn) {
    const Seconds own = timed([&] {
      trainer.step(batch_of(shape, turn));
      trainer.sync();
    });
    shares.push_back(trainer.metric("mfu"));
    if (peer.ready())
      times.add(own, peer.repeat());
    else
      times.add(own);
  }
  std::sort(shares.begin(), shares.end());
  print_machine(threads);
  std::printf(
      "%s %s: %.1fM parameters, batch %ld x %ld, mfu %.2f, memory %.0f MB, at most %.0f MB, "
      "values of a layer recomputed %ld\n",
      shape.name, arithmetic.c_str(), static_cast<double>(model->params().parameter_count()) / 1e6,
      static_cast<long>(shape.batch), static_cast<long>(shape.length), shares[shares.size() / 2],
      trainer.metric("memory") / 1e6, static_cast<double>(engine->i64("memory_peak")) / 1e6,
      static_cast<long>(trainer.describe()["recomputed"].get<int64_t>()));
  times.print(shape.name, static_cast<double>(shape.batch * shape.length));
}

} // namespace

int main(int argc, char** argv) {
  const std::string wanted = argc > 1 ? argv[1] : "quickstart";
  const int64_t turns = argc > 2 ? std::max(1L, std::atol(argv[2])) : 5;
  const int threads = argc > 3 ? std::max(1, std::atoi(argv[3])) : 2;
  const std::string arithmetic = argc > 6 ? argv[6] : "f32";
  const int64_t memory = argc > 7 ? std::atoll(argv[7]) : 0;
  for (ShapeOfRun shape : kShapes) {
    if (argc > 4) shape.batch = std::max(1L, std::atol(argv[4]));
    if (argc > 5) shape.length = std::max(1L, std::atol(argv[5]));
    if (wanted == shape.name || wanted == "all") run(shape, turns, threads, arithmetic, memory);
  }
  return 0;
}
