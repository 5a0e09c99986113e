// Two builds of the library in one process, timed in turns: what a change costs to a percent.
// bench_paired OLD/libdllm.so NEW/libdllm.so [turns] [threads]
// Prints the medians of a forward pass, a training step and two kinds of decoding steps of a 44 M
// model, the median of the ratios new / old of neighbouring turns with its quartiles, and the
// memory that each library allocated for its engine.

#include "library.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr const char* kConfig =
    R"({"model_type": "qwen3", "vocab_size": 8192, "hidden_size": 512, "num_hidden_layers": 12,
        "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 1408,
        "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
        "tie_word_embeddings": true, "dllm": {"attention": "bidirectional", "mask_token_id": 8191}})";
constexpr int64_t kVocab = 8192;

// The same model, batch, trainer and decoders in one of the libraries. Everything lives until the
// process ends.
class Subject {
public:
  Subject(const char* path, int64_t threads) : library_(path) {
    dllm_options* options = options_of("engine", "{\"threads\": " + std::to_string(threads) + "}");
    CALL(dllm_engine_new, options, &engine_);
    model_ = model();
    batch_ = batch(1, 256);
    train_batch_ = batch(4, 128);
    dllm_objective* objective = nullptr;
    CALL(dllm_objective_new, "mdlm", nullptr, options_of("objective:mdlm", R"({"mask_id": 8191})"),
         &objective);
    CALL(dllm_trainer_new, model(), objective, nullptr, &trainer_);
    whole_ = decoder(R"({"steps": 128, "gen_length": 128, "block_length": 32, "cache": "none"})");
    cached_ = decoder(
        R"({"steps": 128, "gen_length": 128, "block_length": 32, "attention": "block_causal", "cache": "exact"})");
  }

  void forward() {
    dllm_batch* made = nullptr;
    CALL(dllm_model_forward, model_, batch_, nullptr, nullptr, &made);
    library_.function<decltype(dllm_batch_release)>("dllm_batch_release")(made);
  }
  void train() {
    double loss = 0;
    CALL(dllm_trainer_step, trainer_, train_batch_, nullptr, &loss);
  }
  void decode_whole() { steps(whole_, 8); }
  void decode_cached() { steps(cached_, 16); }
  int64_t peak_bytes() {
    int64_t bytes = 0;
    CALL(dllm_engine_i64, engine_, "memory_peak", &bytes);
    return bytes;
  }

private:
  dllm_options* options_of(const char* kind, const std::string& json) {
    dllm_options* options = nullptr;
    CALL(dllm_options_new, kind, &options);
    CALL(dllm_options_set_json, options, json.data(), static_cast<int64_t>(json.size()));
    return options;
  }
  dllm_model* model() {
    dllm_model* made = nullptr;
    const std::string config = kConfig;
    CALL(dllm_model_new, engine_, config.data(), static_cast<int64_t>(config.size()), nullptr,
         nullptr, &made);
    return made;
  }
  dllm_batch* batch(int64_t rows, int64_t length) {
    std::vector<int32_t> ids(static_cast<size_t>(rows * length));
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * 7919 % (kVocab - 1));
    const int64_t dims[] = {rows, length};
    dllm_batch* made = nullptr;
    CALL(dllm_batch_new, &made);
    CALL(dllm_batch_set, made, "ids", DLLM_I32, dims, 2, ids.data());
    return made;
  }
  dllm_decoder* decoder(const char* settings) {
    dllm_decoder* made = nullptr;
    CALL(dllm_decoder_new, model_, options_of("decoder", settings), &made);
    return made;
  }
  // A request of 64 given tokens, begun again when it is decided.
  void steps(dllm_decoder* decoder, int count) {
    int64_t active = 0;
    for (int i = 0; i < count; ++i) {
      if (active == 0) {
        std::vector<int32_t> prompt(64);
        for (size_t k = 0; k < prompt.size(); ++k)
          prompt[k] = static_cast<int32_t>(k * 31 % kVocab);
        CALL(dllm_decoder_start, decoder, prompt.data(), static_cast<int64_t>(prompt.size()), 7);
      }
      CALL(dllm_decoder_step, decoder, nullptr, &active);
    }
  }

  Library library_;
  dllm_engine* engine_ = nullptr;
  dllm_model* model_ = nullptr;
  dllm_batch *batch_ = nullptr, *train_batch_ = nullptr;
  dllm_trainer* trainer_ = nullptr;
  dllm_decoder *whole_ = nullptr, *cached_ = nullptr;
};

double milliseconds(Subject& subject, void (Subject::*work)()) {
  const auto begin = std::chrono::steady_clock::now();
  (subject.*work)();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
}

void compare(const char* name, Subject& before, Subject& after, void (Subject::*work)(),
             int turns) {
  std::vector<double> old_times, new_times, ratios;
  milliseconds(before, work);
  milliseconds(after, work);
  for (int i = 0; i < turns; ++i) {
    // The order changes with every turn, so that a drift of the clock favours neither.
    double first = i % 2 == 0 ? milliseconds(before, work) : milliseconds(after, work);
    double second = i % 2 == 0 ? milliseconds(after, work) : milliseconds(before, work);
    if (i % 2 != 0) std::swap(first, second);
    old_times.push_back(first);
    new_times.push_back(second);
    ratios.push_back(second / first);
  }
  std::printf("%-28s old %8.2f ms  new %8.2f ms  new/old %.3f  (quartiles %.3f %.3f, %d turns)\n",
              name, quantile(old_times, 0.5), quantile(new_times, 0.5), quantile(ratios, 0.5),
              quantile(ratios, 0.25), quantile(ratios, 0.75), turns);
  std::fflush(stdout);
}

int run(int count, char** words) {
  if (count < 3) {
    std::fprintf(stderr, "bench_paired OLD/libdllm.so NEW/libdllm.so [turns] [threads]\n");
    return 2;
  }
  const int turns = count > 3 ? std::atoi(words[3]) : 30;
  const int64_t threads = count > 4 ? std::atoi(words[4]) : 2;
  Subject before(words[1], threads), after(words[2], threads);
  compare("forward, 256 tokens", before, after, &Subject::forward, turns);
  compare("training step, 4 x 128", before, after, &Subject::train, turns);
  compare("8 steps of decoding, whole", before, after, &Subject::decode_whole, turns);
  compare("16 steps, cached blocks", before, after, &Subject::decode_cached, turns);
  std::printf("peak memory of the engine     old %8.1f MB  new %8.1f MB\n",
              static_cast<double>(before.peak_bytes()) / 1e6,
              static_cast<double>(after.peak_bytes()) / 1e6);
  return 0;
}

} // namespace

int main(int count, char** words) {
  try {
    return run(count, words);
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "bench_paired: %s\n", problem.what());
    return 1;
  }
}
