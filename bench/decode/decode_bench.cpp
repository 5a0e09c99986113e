// Decoding on the shape of Qwen3-0.6B (or a small one) with random weights.
//
//   bench_decode context [--small]     one step of a block of 32 over a cache of 1k to 16k tokens
//   bench_decode share   [--small]     what head and sampler cost of such a step
//
// Bound of a step over a short cache: 2 flops per weight and row, at the peak the engine measures.

#include "cpu/engine.h"
#include "decode/decode_state.h"
#include "decode/step_program.h"
#include "graph/engine.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <numeric>
#include <string>

namespace {

using namespace dllm;
using namespace dllm::decode;

Json shape(bool small) {
  Json config = {{"model_type", "qwen3"},
                 {"vocab_size", 151936},
                 {"hidden_size", 1024},
                 {"num_hidden_layers", 28},
                 {"num_attention_heads", 16},
                 {"num_key_value_heads", 8},
                 {"head_dim", 128},
                 {"intermediate_size", 3072},
                 {"max_position_embeddings", 40960},
                 {"tie_word_embeddings", true},
                 {"rope_theta", 1e6},
                 {"mask_token_id", 151935}};
  config["dllm"] = {
      {"attention", "block_causal"}, {"shift", 0}, {"mask_token_id", 151935}, {"block_length", 32}};
  if (small)
    config.update({{"num_hidden_layers", 4}, {"vocab_size", 8192}, {"mask_token_id", 8191}});
  if (small) config["dllm"]["mask_token_id"] = 8191;
  return config;
}

std::shared_ptr<model::Model> make_model(bool small) {
  Options engine(cpu::engine_schema());
  return model::new_model(cpu::make_engine(engine), shape(small), Options(model::model_schema()));
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// A request in the block behind `context` tokens whose K and V are taken to be in the cache
// already.
struct Bed {
  std::shared_ptr<model::Model> model;
  Slot slot;
  Ask ask;
  DecodeState state;
  StepProgram program;
  int64_t row = -1;

  Bed(std::shared_ptr<model::Model> held, int64_t context, int64_t block)
      : model(std::move(held)), state(model), program(model, StepSettings{}) {
    slot.sight = {block, 0, false};
    for (int64_t i = 0; i < context + block; ++i) {
      slot.ids.push_back(static_cast<int32_t>(i % 1000));
      slot.states.push_back(i < context ? State::fixed : State::masked);
      slot.confidence.push_back(0);
    }
    ask.begin = context;
    ask.end = context + block;
    ask.cached = true;
    ask.positions.resize(static_cast<size_t>(block));
    std::iota(ask.positions.begin(), ask.positions.end(), context);
    row = state.acquire(slot.length(), {}, slot.sight);
  }

  double cpu_seconds = 0; // of all threads, in the last step; says more on a busy machine

  double seconds() {
    const auto start = std::chrono::steady_clock::now();
    const std::clock_t cpu = std::clock();
    const PassRow pass{&slot, &ask, row};
    program.run(std::span<const PassRow>(&pass, 1), state, 32, nullptr);
    cpu_seconds = static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  double median_seconds(int repeats) {
    seconds(); // compiles
    std::vector<double> all;
    for (int i = 0; i < repeats; ++i) all.push_back(seconds());
    return median(all);
  }
};

double layer_flops(const model::ModelConfig& c) {
  const double weights =
      static_cast<double>(c.hidden_size) *
          static_cast<double>(2 * c.query_size() + 2 * c.kv_size()) +
      3.0 * static_cast<double>(c.hidden_size) * static_cast<double>(c.intermediate_size);
  return 2 * weights * static_cast<double>(c.layers);
}

void context_cost(bool small) {
  const auto model = make_model(small);
  const double peak = model->engine().peak_flops();
  fmt::print("one step of 32 positions, {} threads, peak {:.1f} GFLOP/s\n",
             model->engine().i64("threads"), peak * 1e-9);
  fmt::print("{:>8} {:>10} {:>10} {:>12} {:>10} {:>10}\n", "context", "ms", "bound ms", "of bound",
             "cpu ms", "cache MB");
  for (const int64_t context : {1024, 2048, 4096, 8192, 16384}) {
    Bed bed(model, context, 32);
    const double seconds = bed.median_seconds(5);
    const model::ModelConfig& c = model->config();
    const double attention =
        4.0 * 32 * static_cast<double>((context + 32) * c.query_size() * c.layers);
    const double head = 2.0 * 32 * static_cast<double>(c.vocab_size * c.hidden_size);
    const double bound = (32 * layer_flops(c) + attention + head) / peak;
    fmt::print("{:>8} {:>10.1f} {:>10.1f} {:>11.0f}% {:>10.1f} {:>10.0f}\n", context, seconds * 1e3,
               bound * 1e3, 100 * bound / seconds, bed.cpu_seconds * 1e3,
               static_cast<double>(bed.state.bytes()) * 1e-6);
  }
}

void share(bool small) {
  const auto model = make_model(small);
  Bed whole(model, 1024, 32), bare(model, 1024, 32);
  bare.ask.positions.clear();
  const double with = whole.median_seconds(7), without = bare.median_seconds(7);
  const model::ModelConfig& c = model->config();
  const double head =
      2.0 * 32 * static_cast<double>(c.vocab_size * c.hidden_size) / model->engine().peak_flops();
  fmt::print(
      "step {:.1f} ms, without head and sampler {:.1f} ms; head and sampler {:.1f} ms = {:.0f}%\n",
      with * 1e3, without * 1e3, (with - without) * 1e3, 100 * (with - without) / with);
  fmt::print("the head's product alone takes {:.1f} ms at peak: sampler and the rest {:.1f} ms = "
             "{:.0f}% of the "
             "step\n",
             head * 1e3, (with - without - head) * 1e3, 100 * (with - without - head) / with);
}

} // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const bool small = argc > 2 && std::strcmp(argv[2], "--small") == 0;
  if (what == "context")
    context_cost(small);
  else if (what == "share")
    share(small);
  else
    fmt::print("bench_decode context|share [--small]\n");
  return what.empty() ? 2 : 0;
}
