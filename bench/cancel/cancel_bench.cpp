// Cancels long calls at random moments and measures how soon they return.
// bench_cancel [44m | 500m] [cancels] [threads] [call...]

#include "dllm/dllm.h"

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

dllm_error* error = nullptr;

void need(dllm_status status) {
  if (status == DLLM_OK) return;
  std::fprintf(stderr, "%s\n", dllm_error_message(error));
  std::exit(1);
}

// A call that can be repeated; answers its status and undoes nothing.
using Call = std::function<dllm_status(dllm_task*)>;

double milliseconds_of(const Call& call) {
  const auto begin = Clock::now();
  need(call(nullptr));
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
    dllm_task* task = dllm_task_new();
    Clock::time_point cancelled{};
    std::thread other([&] {
      std::this_thread::sleep_for(Milliseconds(after));
      cancelled = Clock::now();
      dllm_task_cancel(task);
    });
    const dllm_status status = call(task);
    const auto returned = Clock::now();
    other.join();
    dllm_task_release(task);
    const double wait = Milliseconds(returned - cancelled).count();
    if (status == DLLM_CANCELLED) {
      waits.push_back(wait);
    } else if (status == DLLM_OK) {
      ++went_on;
      longest_on = std::max(longest_on, wait);
    } else {
      need(status);
    }
  }
  std::printf("%-16s %8.0f ms whole | %3zu cancelled: p50 %7.2f  p90 %7.2f  max %7.2f ms | %d went on, at most %.2f ms\n",
              name.c_str(), whole, waits.size(), quantile(waits, 0.5), quantile(waits, 0.9), quantile(waits, 1), went_on,
              longest_on);
  std::fflush(stdout);
}

struct Sizes {
  const char* config;
  int64_t vocab, rows, length; // of a training batch
  int64_t steps, answer;       // of a decoded request
};

Sizes sizes_of(const std::string& name) {
  if (name == "500m") {
    return {R"({"model_type": "qwen2", "vocab_size": 151936, "hidden_size": 896, "num_hidden_layers": 24,
                "num_attention_heads": 14, "num_key_value_heads": 2, "head_dim": 64, "intermediate_size": 4864,
                "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
                "tie_word_embeddings": true, "dllm": {"attention": "bidirectional", "mask_token_id": 151935}})",
            151936, 1, 128, 256, 256};
  }
  return {R"({"model_type": "qwen3", "vocab_size": 8192, "hidden_size": 512, "num_hidden_layers": 12,
              "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 1408,
              "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
              "tie_word_embeddings": true, "dllm": {"attention": "bidirectional", "mask_token_id": 8191}})",
          8192, 8, 256, 512, 512};
}

dllm_options* options(const char* kind, const std::string& json) {
  dllm_options* made = nullptr;
  need(dllm_options_new(kind, &made, error));
  if (!json.empty()) need(dllm_options_set_json(made, json.data(), static_cast<int64_t>(json.size()), error));
  return made;
}

dllm_batch* batch_of(const Sizes& sizes) {
  std::vector<int32_t> ids(static_cast<size_t>(sizes.rows * sizes.length));
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<int32_t>(static_cast<int64_t>(i) * 7919 % (sizes.vocab - 1));
  const int64_t dims[] = {sizes.rows, sizes.length};
  dllm_batch* batch = nullptr;
  need(dllm_batch_new(&batch, error));
  need(dllm_batch_set(batch, "ids", DLLM_I32, dims, 2, ids.data(), error));
  return batch;
}

std::string words(size_t bytes) {
  std::mt19937 random(3);
  std::string text;
  while (text.size() < bytes) {
    for (size_t left = 2 + random() % 9; left > 0; --left) text += static_cast<char>('a' + random() % 26);
    text += random() % 12 == 0 ? '\n' : ' ';
  }
  return text;
}

class Bench {
 public:
  Bench(const std::string& size, int cancels, int64_t threads, std::vector<std::string> wanted)
      : sizes_(sizes_of(size)), cancels_(cancels), wanted_(std::move(wanted)),
        folder_(std::filesystem::temp_directory_path() / ("dllm_bench_cancel_" + size)) {
    std::filesystem::create_directories(folder_);
    dllm_options* opts = options("engine", "{\"threads\": " + std::to_string(threads) + "}");
    need(dllm_engine_new(opts, &engine_, error));
    dllm_options_release(opts);
    batch_ = batch_of(sizes_);
  }
  ~Bench() {
    dllm_batch_release(batch_);
    dllm_engine_release(engine_);
    std::filesystem::remove_all(folder_);
  }

  void run() {
    if (wants("new")) measure("model_new", cancels_, [&](dllm_task* task) { return make(task); });
    if (wants("text")) text();
    if (wants("forward") || wants("decode") || wants("save") || wants("load") || wants("train")) {
      need(make_into(nullptr, &model_));
      if (wants("forward")) forward();
      if (wants("decode")) decode();
      if (wants("save") || wants("load")) files();
      if (wants("train")) train();
      dllm_model_release(model_);
    }
  }

 private:
  bool wants(const char* call) const {
    return wanted_.empty() || std::find(wanted_.begin(), wanted_.end(), call) != wanted_.end();
  }
  std::string path(const char* name) const { return (folder_ / name).string(); }

  dllm_status make_into(dllm_task* task, dllm_model** out) {
    const std::string config = sizes_.config;
    return dllm_model_new(engine_, config.data(), static_cast<int64_t>(config.size()), nullptr, task, out, error);
  }
  dllm_status make(dllm_task* task) {
    dllm_model* model = nullptr;
    const dllm_status status = make_into(task, &model);
    dllm_model_release(model);
    return status;
  }

  void forward() {
    measure("forward", cancels_, [&](dllm_task* task) {
      dllm_batch* out = nullptr;
      const dllm_status status = dllm_model_forward(model_, batch_, nullptr, task, &out, error);
      dllm_batch_release(out);
      return status;
    });
  }

  void decode() {
    dllm_options* opts = options("decoder", "{\"steps\": " + std::to_string(sizes_.steps) + ", \"gen_length\": " +
                                                std::to_string(sizes_.answer) + ", \"trace\": false}");
    dllm_decoder* decoder = nullptr;
    need(dllm_decoder_new(model_, opts, &decoder, error));
    measure("decode step", cancels_, [&](dllm_task* task) {
      double open = 0;
      dllm_status status = dllm_decoder_metric(decoder, -1, "open", &open, error);
      if (status != DLLM_OK || open < 1) need(dllm_decoder_start(decoder, nullptr, 0, 1, error));
      return dllm_decoder_step(decoder, task, nullptr, error);
    });
    dllm_decoder_release(decoder);
    dllm_options_release(opts);
  }

  void files() {
    dllm_options* over = options("save", "{\"overwrite\": true}");
    const std::string folder = path("model");
    measure("save", cancels_,
            [&](dllm_task* task) { return dllm_model_save(model_, folder.c_str(), over, task, error); });
    dllm_options_release(over);
    for (const char* dtype : {"f32", "bf16", "int8"}) {
      dllm_options* opts = options("model", std::string("{\"dtype\": \"") + dtype + "\"}");
      measure(std::string("load ") + dtype, cancels_, [&](dllm_task* task) {
        dllm_model* model = nullptr;
        const dllm_status status = dllm_model_load(engine_, folder.c_str(), opts, task, &model, error);
        dllm_model_release(model);
        return status;
      });
      dllm_options_release(opts);
    }
  }

  void train() {
    dllm_objective* objective = nullptr;
    dllm_trainer* trainer = nullptr;
    need(dllm_objective_new("mdlm", nullptr, nullptr, &objective, error));
    need(dllm_trainer_new(model_, objective, nullptr, &trainer, error));
    measure("training step", cancels_,
            [&](dllm_task* task) { return dllm_trainer_step(trainer, batch_, task, nullptr, error); });
    measure("accumulate", cancels_, [&](dllm_task* task) { return dllm_trainer_accumulate(trainer, batch_, task, error); });
    dllm_trainer_release(trainer);
    dllm_objective_release(objective);
  }

  void text() {
    const std::string file = path("text.txt");
    const std::string content = words(size_t{2} << 20);
    std::ofstream(file) << content;
    dllm_options* rows = options("dataset", "{\"rows\": \"line\"}");
    dllm_dataset* raw = nullptr;
    need(dllm_dataset_open(file.c_str(), nullptr, rows, nullptr, &raw, error));
    dllm_options* small = options("tokenizer_train", "{\"vocab_size\": 2048}");
    dllm_tokenizer* tok = nullptr;
    measure("BPE training", cancels_, [&](dllm_task* task) {
      dllm_tokenizer* made = nullptr;
      const dllm_status status = dllm_tokenizer_train(raw, small, task, &made, error);
      if (status == DLLM_OK) std::swap(made, tok);
      dllm_tokenizer_release(made);
      return status;
    });
    measure("dataset open", cancels_, [&](dllm_task* task) {
      dllm_dataset* made = nullptr;
      const dllm_status status = dllm_dataset_open(file.c_str(), tok, rows, task, &made, error);
      dllm_dataset_release(made);
      return status;
    });
#ifndef DLLM_BENCH_NO_ENCODE_TASK // for a build of an older tree
    measure("encode", cancels_, [&](dllm_task* task) {
      dllm_batch* ids = nullptr;
      const auto size = static_cast<int64_t>(content.size());
      const dllm_status status = dllm_tokenizer_encode_task(tok, content.data(), size, task, &ids, error);
      dllm_batch_release(ids);
      return status;
    });
#endif
    dllm_tokenizer_release(tok);
    dllm_dataset_release(raw);
    dllm_options_release(small);
    dllm_options_release(rows);
  }

  Sizes sizes_;
  int cancels_;
  std::vector<std::string> wanted_;
  std::filesystem::path folder_;
  dllm_engine* engine_ = nullptr;
  dllm_model* model_ = nullptr;
  dllm_batch* batch_ = nullptr;
};

} // namespace

int main(int argc, char** argv) {
  const std::string size = argc > 1 ? argv[1] : "44m";
  const int cancels = argc > 2 ? std::atoi(argv[2]) : 40;
  const int64_t threads = argc > 3 ? std::atoll(argv[3]) : 2;
  std::vector<std::string> wanted(argv + std::min(argc, 4), argv + argc);
  error = dllm_error_new();
  double load[1] = {0};
  if (getloadavg(load, 1) < 1) load[0] = -1;
  std::printf("%s, %d cancels, %lld threads, load average %.1f\n", size.c_str(), cancels,
              static_cast<long long>(threads), load[0]);
  Bench(size, cancels, threads, std::move(wanted)).run();
  dllm_error_release(error);
  return 0;
}
