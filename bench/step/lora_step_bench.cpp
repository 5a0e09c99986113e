// bench_lora_step [f32|bf16|nf4|q8_0] [turns] [threads] [layers] [bf16|f32] [full]: one training
// step of LoRA adapters (rank 16, all matrices of layers) on a frozen base of the shape of
// Qwen2.5-1.5B with fewer layers, batch 4 x 256. It takes turns with PEFT on PyTorch, whose base is
// in the arithmetic of the fifth argument. Prints tokens/s, peak memory and the ratios. full: also
// steps that train all weights in f32, in the same turns.

#include "base/threads/parallel.h"
#include "cpu/engine.h"
#include "graph/engine.h"
#include "model/adapters/adapter.h"
#include "peer.h"
#include "train/trainer.h"
#include "training_model.h"

#include <malloc.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace dllm;

constexpr int64_t kRank = 16, kHeads = 12, kKeyHeads = 2;

struct Run {
  std::string format = "bf16"; // of the base
  int64_t turns = 5;
  int threads = 2;
  std::string arithmetic = "bf16";
  bool trains_all = false;
  bench::TrainingSizes sizes{4, 1536, kHeads, 8960, 151936, 4, 256};
};

Json config_of(const Run& run) {
  return {{"model_type", "qwen2"},
          {"vocab_size", run.sizes.vocab},
          {"hidden_size", run.sizes.hidden},
          {"num_hidden_layers", run.sizes.layers},
          {"num_attention_heads", kHeads},
          {"num_key_value_heads", kKeyHeads},
          {"intermediate_size", run.sizes.inner},
          {"max_position_embeddings", 4096},
          {"rms_norm_eps", 1e-6},
          {"rope_theta", 1e6},
          {"tie_word_embeddings", true},
          {"mask_token_id", run.sizes.vocab - 1}};
}

std::vector<std::string> peer_arguments(const Run& run) {
  std::vector<std::string> words;
  for (const int64_t number :
       {run.sizes.layers, run.sizes.hidden, kHeads, kKeyHeads, run.sizes.inner, run.sizes.vocab,
        run.sizes.batch, run.sizes.length, static_cast<int64_t>(run.threads), kRank})
    words.push_back(std::to_string(number));
  words.push_back(run.arithmetic);
  return words;
}

std::unique_ptr<train::Trainer> trainer_of(const Run& run, const std::string& format, bool adapts) {
  Options engine_options(graph::engine_schema()), model_options(model::model_schema());
  engine_options.set_json(Json{{"threads", run.threads}, {"arithmetic", run.arithmetic}});
  model_options.set_json(Json{{"dtype", format}});
  const auto model =
      model::new_model(cpu::make_engine(engine_options), config_of(run), model_options);
  if (adapts) {
    model::AdapterOptions adapter;
    adapter.settings.rank = kRank;
    adapter.settings.alpha = 2 * kRank;
    model::add_adapter(*model, adapter);
  }
  return std::make_unique<train::Trainer>(model, noise::make_objective("mdlm"),
                                          Options(train::trainer_schema()));
}

Seconds step_time(const Run& run, train::Trainer& trainer, int64_t turn) {
  return timed([&] {
    trainer.step(batch_of(run.sizes, turn));
    trainer.sync();
  });
}

// Begins the measurement of the most memory of this process again.
void begin_peak() {
  malloc_trim(0);
  if (std::FILE* clear = std::fopen("/proc/self/clear_refs", "w")) {
    std::fputs("5", clear);
    std::fclose(clear);
  }
}

double peak_bytes() {
  double kib = 0;
  std::FILE* status = std::fopen("/proc/self/status", "r");
  if (status == nullptr) return 0;
  char line[256];
  while (std::fgets(line, sizeof line, status) != nullptr) {
    if (std::sscanf(line, "VmHWM: %lf", &kib) == 1) break;
  }
  std::fclose(status);
  return kib * 1024;
}

void print_memory(const Run& run, double own, double other) {
  std::printf("%s: memory %.0f MB", run.format.c_str(), own / 1e6);
  if (other > 0) std::printf(", PyTorch %.0f MB, ratio %.2f", other / 1e6, own / other);
  std::printf("\n");
}

void measure(const Run& run) {
  auto trainer = trainer_of(run, run.format, true);
  step_time(run, *trainer, 0); // compiles
  begin_peak();
  step_time(run, *trainer, 1);
  const double own_peak = peak_bytes();
  Peer peer(DLLM_TORCH_LORA, peer_arguments(run));
  auto whole = run.trains_all ? trainer_of(run, "f32", false) : nullptr;
  if (whole) step_time(run, *whole, 0);
  Turns times;
  std::vector<double> shares;
  for (int64_t turn = 2; turn < run.turns + 2; ++turn) {
    const Seconds own = step_time(run, *trainer, turn);
    if (whole) shares.push_back(own.wall / step_time(run, *whole, turn).wall);
    if (peer.ready())
      times.add(own, peer.repeat());
    else
      times.add(own);
  }
  print_machine(run.threads);
  std::printf("%s base, arithmetic %s, %ld of 28 layers, rank %ld, batch %ld x %ld\n",
              run.format.c_str(), run.arithmetic.c_str(), static_cast<long>(run.sizes.layers),
              static_cast<long>(kRank), static_cast<long>(run.sizes.batch),
              static_cast<long>(run.sizes.length));
  times.print(run.format.c_str(), static_cast<double>(run.sizes.batch * run.sizes.length));
  print_memory(run, own_peak, peer.ready() ? peer.repeat("peak").wall : 0);
  if (shares.empty()) return;
  std::sort(shares.begin(), shares.end());
  std::printf("%s: a step of the adapters takes %.2f (%.2f to %.2f) of a step of all weights\n",
              run.format.c_str(), shares[shares.size() / 2], shares.front(), shares.back());
}

} // namespace

int main(int argc, char** argv) {
  Run run;
  if (argc > 1) run.format = argv[1];
  if (argc > 2) run.turns = std::max(1L, std::atol(argv[2]));
  if (argc > 3) run.threads = std::max(1, std::atoi(argv[3]));
  if (argc > 4) run.sizes.layers = std::max(1L, std::atol(argv[4]));
  if (argc > 5) run.arithmetic = argv[5];
  run.trains_all = argc > 6 && std::string(argv[6]) == "full";
  measure(run);
  return 0;
}
