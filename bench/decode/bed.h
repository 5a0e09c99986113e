#pragma once
// What the decoding benches share: shapes of known models with random weights, the work of a pass,
// and a request whose K and V before its block are taken to be in the cache already.

#include "cpu/engine.h"
#include "decode/cache/decode_state.h"
#include "decode/pass/pass_program.h"
#include "graph/engine.h"
#include "step/peer.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace dllm::decode {

// qwen3-0.6b, qwen2.5-0.5b, or small (the first with 4 layers and 8,192 tokens).
inline Json shape_named(const std::string& name) {
  Json config = {{"model_type", "qwen3"},
                 {"vocab_size", 151936},
                 {"hidden_size", 1024},
                 {"num_hidden_layers", 28},
                 {"num_attention_heads", 16},
                 {"num_key_value_heads", 8},
                 {"head_dim", 128},
                 {"intermediate_size", 3072},
                 {"tie_word_embeddings", true},
                 {"max_position_embeddings", 40960},
                 {"rope_theta", 1e6},
                 {"mask_token_id", 151935}};
  if (name == "qwen2.5-0.5b") {
    config.update({{"model_type", "qwen2"},
                   {"hidden_size", 896},
                   {"num_hidden_layers", 24},
                   {"num_attention_heads", 14},
                   {"num_key_value_heads", 2},
                   {"head_dim", 64},
                   {"intermediate_size", 4864}});
  }
  if (name == "small")
    config.update({{"num_hidden_layers", 4}, {"vocab_size", 8192}, {"mask_token_id", 8191}});
  config["dllm"] = {{"attention", "block_causal"},
                    {"shift", 0},
                    {"mask_token_id", config["mask_token_id"]},
                    {"block_length", 32}};
  return config;
}

inline std::shared_ptr<model::Model> make_model(const std::string& shape,
                                                const std::string& dtype = "f32",
                                                const std::string& arithmetic = "f32",
                                                const std::string& cache = "f32") {
  Options engine(graph::engine_schema()), options(model::model_schema());
  options.set_str("dtype", dtype);
  options.set_str("cache_dtype", cache);
  engine.set_str("arithmetic", arithmetic);
  return model::new_model(cpu::make_engine(engine), shape_named(shape), options);
}

// 2 flops per weight and row.
inline double layer_flops(const model::ModelConfig& c) {
  const double weights =
      static_cast<double>(c.hidden_size) *
          static_cast<double>(2 * c.query_size() + 2 * c.kv_size()) +
      3.0 * static_cast<double>(c.hidden_size) * static_cast<double>(c.intermediate_size);
  return 2 * weights * static_cast<double>(c.layers);
}

// A pass over `rows` positions that see `keys` ones, `predicted` of which are predicted.
inline double pass_flops(const model::ModelConfig& c, int64_t rows, int64_t keys,
                         int64_t predicted) {
  const double attention = 4.0 * static_cast<double>(rows * keys * c.query_size() * c.layers);
  const double head = 2.0 * static_cast<double>(predicted * c.vocab_size * c.hidden_size);
  return static_cast<double>(rows) * layer_flops(c) + attention + head;
}

// Bytes per second that all threads together read from memory: the best of three sums over 256 MB.
inline double read_bandwidth(int threads) {
  const std::vector<uint64_t> numbers(size_t{1} << 25, 1);
  std::atomic<uint64_t> sum{0};
  double best = 0;
  for (int turn = 0; turn < 3; ++turn) {
    const Seconds taken = timed([&] {
      std::vector<std::thread> readers;
      for (int t = 0; t < threads; ++t) {
        readers.emplace_back([&, t] {
          const size_t part = numbers.size() / static_cast<size_t>(threads);
          const auto first = numbers.begin() + static_cast<int64_t>(part) * t;
          sum += std::accumulate(first, first + static_cast<int64_t>(part), uint64_t{0});
        });
      }
      for (std::thread& reader : readers) reader.join();
    });
    best = std::max(best, static_cast<double>(numbers.size() * sizeof(uint64_t)) / taken.wall);
  }
  return best;
}

// Wall and processor time, each by itself.
inline Seconds median(const std::vector<Seconds>& all) {
  std::vector<double> wall, cpu;
  for (const Seconds& s : all) {
    wall.push_back(s.wall);
    cpu.push_back(s.cpu);
  }
  std::sort(wall.begin(), wall.end());
  std::sort(cpu.begin(), cpu.end());
  return {wall[wall.size() / 2], cpu[cpu.size() / 2]};
}

// A request in the block behind `context` tokens.
struct Bed {
  std::shared_ptr<model::Model> model;
  Request slot;
  PassRequest ask;
  DecodeState state;
  PassProgram program;
  PassSettings settings;
  int64_t row = -1;

  // `behind`: open positions behind the block.
  Bed(std::shared_ptr<model::Model> held, int64_t context, int64_t block, int64_t behind = 0,
      PassSettings own = {})
      : Bed(held, context, block, behind, std::move(own), rounding_of(*held)) {}
  Bed(std::shared_ptr<model::Model> held, int64_t context, int64_t block, int64_t behind,
      PassSettings own, const Rounding& rounding)
      : model(std::move(held)), state(model), program(model, rounding), settings(std::move(own)) {
    slot.span = {block, 0, false};
    for (int64_t i = 0; i < context + block + behind; ++i) {
      slot.ids.push_back(static_cast<int32_t>(i % 1000));
      slot.states.push_back(i < context ? State::fixed : State::masked);
      slot.confidence.push_back(0);
    }
    ask.begin = context;
    ask.end = context + block;
    ask.cached = true;
    ask.positions.resize(static_cast<size_t>(block));
    std::iota(ask.positions.begin(), ask.positions.end(), context);
  }

  // The whole canvas up to `end`, nothing kept.
  void leave_cache(int64_t end) {
    ask.cached = false;
    ask.begin = 0;
    ask.end = end;
  }

  Seconds pass() {
    if (ask.cached && row < 0) row = state.acquire(slot.length(), {}, slot.span);
    return timed([&] {
      const PassRow one{&slot, &ask, row};
      Weights weights;
      weights.buffers = model->params().snapshot(&weights.version);
      program.run(std::span<const PassRow>(&one, 1), settings, state, weights,
                  static_cast<int64_t>(ask.positions.size()), nullptr);
    });
  }

  Seconds median_pass(int repeats) {
    pass(); // compiles
    std::vector<Seconds> all;
    for (int i = 0; i < repeats; ++i) all.push_back(pass());
    return median(all);
  }
};

void bench_spd(const std::vector<std::string>& arguments);
void bench_loop(const std::vector<std::string>& arguments);

} // namespace dllm::decode
