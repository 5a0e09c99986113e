// Cancels long calls at random moments and measures how soon they return.
// bench_cancel [44m | 500m] [cancels] [threads] [call...]

#include "dllm/dllm.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

// A call that can be repeated and undoes nothing; throws what failed.
using Call = std::function<void(const dllm::Task*)>;

double milliseconds_of(const Call& call) {
  const auto begin = Clock::now();
  call(nullptr);
  return Milliseconds(Clock::now() - begin).count();
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))];
}

void measure(const std::string& name, int cancels, const Call& call) {
  static std::mt19937 random(7);
  milliseconds_of(call); // programs and packed forms are made once
  const double whole = milliseconds_of(call);
  std::vector<double> waits;
  double longest_on = 0;
  int went_on = 0;
  for (int i = 0; i < cancels; ++i) {
    const double after = std::uniform_real_distribution<double>(0, 0.98 * whole)(random);
    const dllm::Task task;
    Clock::time_point cancelled{};
    std::thread other([&] {
      std::this_thread::sleep_for(Milliseconds(after));
      cancelled = Clock::now();
      task.cancel();
    });
    const auto result = dllm::attempt([&] { call(&task); });
    const auto returned = Clock::now();
    other.join();
    const double wait = Milliseconds(returned - cancelled).count();
    if (result) {
      ++went_on;
      longest_on = std::max(longest_on, wait);
    } else if (result.error().status() == DLLM_CANCELLED) {
      waits.push_back(wait);
    } else {
      throw result.error();
    }
  }
  std::printf("%-16s %8.0f ms whole | %3zu cancelled: p50 %7.2f  p90 %7.2f  max %7.2f ms | %d went "
              "on, at most %.2f ms\n",
              name.c_str(), whole, waits.size(), quantile(waits, 0.5), quantile(waits, 0.9),
              quantile(waits, 1), went_on, longest_on);
  std::fflush(stdout);
}

struct Sizes {
  const char* config;
  int64_t vocab, rows, length; // of a training batch
  int64_t steps, answer;       // of a decoded request
};

Sizes sizes_of(const std::string& name) {
  if (name == "500m") {
    return {
        R"({"model_type": "qwen2", "vocab_size": 151936, "hidden_size": 896, "num_hidden_layers": 24,
                "num_attention_heads": 14, "num_key_value_heads": 2, "head_dim": 64, "intermediate_size": 4864,
                "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
                "tie_word_embeddings": true, "dllm": {"attention": "bidirectional", "mask_token_id": 151935}})",
        151936,
        1,
        128,
        256,
        256};
  }
  return {
      R"({"model_type": "qwen3", "vocab_size": 8192, "hidden_size": 512, "num_hidden_layers": 12,
              "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 1408,
              "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
              "tie_word_embeddings": true, "dllm": {"attention": "bidirectional", "mask_token_id": 8191}})",
      8192,
      8,
      256,
      512,
      512};
}

dllm::Batch batch_of(const Sizes& sizes) {
  std::vector<int32_t> ids(static_cast<size_t>(sizes.rows * sizes.length));
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<int32_t>(static_cast<int64_t>(i) * 7919 % (sizes.vocab - 1));
  dllm::Batch batch;
  batch.set("ids", {sizes.rows, sizes.length}, ids);
  return batch;
}

std::string words(size_t bytes) {
  std::mt19937 random(3);
  std::string text;
  while (text.size() < bytes) {
    for (size_t left = 2 + random() % 9; left > 0; --left)
      text += static_cast<char>('a' + random() % 26);
    text += random() % 12 == 0 ? '\n' : ' ';
  }
  return text;
}

class Bench {
public:
  Bench(const std::string& size, int cancels, int64_t threads, std::vector<std::string> wanted)
      : sizes_(sizes_of(size)), cancels_(cancels), wanted_(std::move(wanted)),
        folder_(std::filesystem::temp_directory_path() / ("dllm_bench_cancel_" + size)),
        engine_({{"threads", threads}}), batch_(batch_of(sizes_)) {
    std::filesystem::create_directories(folder_);
  }
  ~Bench() { std::filesystem::remove_all(folder_); }

  void run() {
    if (wants("new")) measure("model_new", cancels_, [&](const dllm::Task* task) { make(task); });
    if (wants("text")) text();
    if (wants("forward") || wants("decode") || wants("save") || wants("load") || wants("train")) {
      dllm::Model model = make(nullptr);
      if (wants("forward")) {
        measure("forward", cancels_,
                [&](const dllm::Task* task) { model.forward(batch_, {}, task); });
      }
      if (wants("decode")) decode(model);
      if (wants("save") || wants("load")) files(model);
      if (wants("train")) train(model);
    }
  }

private:
  bool wants(const char* call) const {
    return wanted_.empty() || std::find(wanted_.begin(), wanted_.end(), call) != wanted_.end();
  }
  std::string path(const char* name) const { return (folder_ / name).string(); }
  dllm::Model make(const dllm::Task* task) {
    return dllm::Model::from_config(engine_, sizes_.config, {}, task);
  }

  void decode(const dllm::Model& model) {
    dllm::Decoder decoder(
        model, {{"steps", sizes_.steps}, {"gen_length", sizes_.answer}, {"trace", false}});
    decoder.start({}, 1);
    measure("decode step", cancels_, [&](const dllm::Task* task) {
      if (decoder.metric("open") < 1) decoder.start({}, 1);
      decoder.step(task);
    });
  }

  void files(const dllm::Model& model) {
    const std::string folder = path("model");
    measure("save", cancels_, [&](const dllm::Task* task) {
      model.save(folder, {{"overwrite", true}}, task);
    });
    for (const char* dtype : {"f32", "bf16", "int8"}) {
      measure(std::string("load ") + dtype, cancels_, [&](const dllm::Task* task) {
        dllm::Model::load(engine_, folder, {{"dtype", dtype}}, task);
      });
    }
  }

  void train(const dllm::Model& model) {
    dllm::Trainer trainer(model, dllm::Objective("mdlm"));
    measure("training step", cancels_,
            [&](const dllm::Task* task) { trainer.start_step(batch_, task); });
    measure("accumulate", cancels_,
            [&](const dllm::Task* task) { trainer.accumulate(batch_, task); });
  }

  void text() {
    const std::string file = path("text.txt");
    const std::string content = words(size_t{2} << 20);
    std::ofstream(file) << content;
    const dllm::Options rows("dataset", {{"rows", "line"}});
    const dllm::Dataset raw = dllm::Dataset::open(file, nullptr, rows);
    std::optional<dllm::Tokenizer> tok;
    measure("BPE training", cancels_, [&](const dllm::Task* task) {
      tok.emplace(dllm::Tokenizer::train(raw, {{"vocab_size", 2048}}, task));
    });
    measure("dataset open", cancels_,
            [&](const dllm::Task* task) { dllm::Dataset::open(file, &*tok, rows, task); });
    measure("encode", cancels_, [&](const dllm::Task* task) {
      task == nullptr ? tok->encode(content) : tok->encode(content, *task);
    });
  }

  Sizes sizes_;
  int cancels_;
  std::vector<std::string> wanted_;
  std::filesystem::path folder_;
  dllm::Engine engine_;
  dllm::Batch batch_;
};

} // namespace

int main(int argc, char** argv) {
  const std::string size = argc > 1 ? argv[1] : "44m";
  const int cancels = argc > 2 ? std::atoi(argv[2]) : 40;
  const int64_t threads = argc > 3 ? std::atoll(argv[3]) : 2;
  std::vector<std::string> wanted(argv + std::min(argc, 4), argv + argc);
  double load[1] = {0};
  if (getloadavg(load, 1) < 1) load[0] = -1;
  std::printf("%s, %d cancels, %lld threads, load average %.1f\n", size.c_str(), cancels,
              static_cast<long long>(threads), load[0]);
  try {
    Bench(size, cancels, threads, std::move(wanted)).run();
  } catch (const dllm::Error& error) {
    std::fprintf(stderr, "%s\n%s\n", error.what(), error.hint().c_str());
    return 1;
  }
  return 0;
}
