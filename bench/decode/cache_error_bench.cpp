// bench_cache_error [model folder] [requests]: Fast-dLLM's prefix and dual caches against no cache.
// Without a folder: a random model. Prints for every policy and cache the share of tokens that
// differ from those without a cache, the largest and the mean difference of a probability on the
// same canvas, and the share of positions the model computed.

#include "base/random.h"
#include "cpu/engine.h"
#include "decode/decoder/decoder.h"
#include "graph/engine.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using namespace dllm;

constexpr int64_t kPrompt = 16, kLength = 64, kBlock = 16;

std::shared_ptr<model::Model> load(const char* folder) {
  const auto engine = cpu::make_engine(Options(graph::engine_schema()));
  if (folder != nullptr) return model::load_model(engine, folder, Options(model::model_schema()));
  const Json config = {
      {"model_type", "a2d-llama"},    {"vocab_size", 512},         {"hidden_size", 128},
      {"num_hidden_layers", 4},       {"num_attention_heads", 4},  {"num_key_value_heads", 4},
      {"intermediate_size", 344},     {"initializer_range", 0.15}, {"max_position_embeddings", 256},
      {"tie_word_embeddings", false}, {"mask_token_id", 511}};
  return model::new_model(engine, config, Options(model::model_schema()));
}

std::unique_ptr<decode::Decoder> decoder_of(const std::shared_ptr<model::Model>& model,
                                            const std::string& policy, const std::string& cache) {
  Options options(decode::decoder_schema(policy));
  options.set_json(Json{{"steps", kLength},
                        {"block_length", kBlock},
                        {"gen_length", kLength},
                        {"attention", "bidirectional"},
                        {"cache", cache}});
  return std::make_unique<decode::Decoder>(model, options);
}

// Probabilities of the asked positions without a cache, on the canvas of another decoder.
class Truth {
public:
  explicit Truth(const std::shared_ptr<model::Model>& model)
      : decoder_(decoder_of(model, "low_confidence", "none")) {}

  // Adds to the largest and the sum of differences.
  void compare(const decode::Request& slot, const Batch& said) {
    std::vector<uint8_t> fixed;
    for (int64_t i = 0; i < slot.length(); ++i) fixed.push_back(slot.is_open(i) ? 0 : 1);
    Options options(decode::request_schema());
    options.set_i64("prompt_length", kPrompt);
    const int64_t own = decoder_->add(slot.ids, fixed, options);
    decoder_->predict();
    const Batch exact = decoder_->statistics(own);
    const auto where = exact.at("positions").as<int32_t>();
    for (int64_t i = 0; i < said.at("positions").count(); ++i) {
      const auto at = static_cast<size_t>(i);
      const auto found =
          std::find(where.begin(), where.end(), said.at("positions").as<int32_t>()[at]);
      if (found == where.end()) continue;
      const double difference = std::abs(
          said.at("max_probability").as<float>()[at] -
          exact.at("max_probability").as<float>()[static_cast<size_t>(found - where.begin())]);
      largest = std::max(largest, difference);
      sum += difference;
      ++count;
    }
    decoder_->remove(own);
  }

  double largest = 0, sum = 0;
  int64_t count = 0;

private:
  std::unique_ptr<decode::Decoder> decoder_;
};

std::vector<int32_t> prompt_of(uint64_t seed, int64_t vocab) {
  std::vector<int32_t> prompt(static_cast<size_t>(kPrompt));
  random_int(make_key(seed), prompt, 0, static_cast<int32_t>(vocab - 1));
  return prompt;
}

void run(const std::shared_ptr<model::Model>& model, const std::string& policy,
         const std::string& cache, int64_t requests) {
  Truth truth(model);
  int64_t different = 0, steps = 0, computed = 0, computed_without = 0;
  for (int64_t seed = 0; seed < requests; ++seed) {
    const std::vector<int32_t> prompt =
        prompt_of(static_cast<uint64_t>(seed), model->config().vocab_size);
    const auto plain = decoder_of(model, policy, "none"), cached = decoder_of(model, policy, cache);
    plain->start(prompt, 0), cached->start(prompt, 0);
    plain->run();
    computed_without += static_cast<int64_t>(plain->metric(0, "nfe")) * (kPrompt + kLength);
    int64_t filled = -1;
    while (cached->request(0).active()) {
      const decode::Request& slot = cached->request(0);
      const bool fills = slot.block != filled;
      const int64_t window = cache == "dual" ? slot.block_end() : slot.length();
      computed += fills ? slot.length() : window - slot.block_begin();
      filled = slot.block;
      ++steps;
      cached->predict();
      truth.compare(slot, cached->statistics(0));
      cached->step();
    }
    for (int64_t i = kPrompt; i < kPrompt + kLength; ++i) {
      const auto at = static_cast<size_t>(i);
      different += plain->request(0).ids[at] != cached->request(0).ids[at];
    }
  }
  fmt::print("{:<15} {:<7} {:>8.1f} {:>9.1f} % {:>9.1f} % {:>10.3f} {:>10.4f}\n", policy, cache,
             static_cast<double>(steps) / static_cast<double>(requests),
             100.0 * static_cast<double>(computed) / static_cast<double>(computed_without),
             100.0 * static_cast<double>(different) / static_cast<double>(requests * kLength),
             truth.largest, truth.sum / static_cast<double>(std::max<int64_t>(truth.count, 1)));
  std::fflush(stdout);
}

} // namespace

int main(int count, char** arguments) {
  try {
    const std::shared_ptr<model::Model> model = load(count > 1 ? arguments[1] : nullptr);
    const int64_t requests = count > 2 ? std::atoll(arguments[2]) : 8;
    fmt::print("prompt {}, answer {}, blocks of {}, {} requests\n", kPrompt, kLength, kBlock,
               requests);
    fmt::print("{:<15} {:<7} {:>8} {:>11} {:>11} {:>10} {:>10}\n", "policy", "cache", "steps",
               "computed", "tokens", "largest", "mean");
    for (const char* policy : {"low_confidence", "threshold", "factor"}) {
      for (const char* cache : {"prefix", "dual"}) run(model, policy, cache, requests);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
