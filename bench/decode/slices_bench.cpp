// How far slices of decoding go over their budget, on shapes of known models with random weights:
//   bench_slices [--shape 135m|0.5b] [--budget 4] [--threads 1] [--dtype f32] [--steps 8]
// The canvas has 96 positions, 64 of them open, one block. A warm-up call comes first, as a loading
// screen has it. LD_LIBRARY_PATH chooses another build of libdllm.so.

#include "dllm/dllm.hpp"
#include "step/peer.h"

#include <cstdint>
#include <map>
#include <numeric>

namespace {

constexpr int64_t kPrompt = 32, kOpen = 64;

std::string shape_of(const std::string& name) {
  if (name == "135m")
    return R"({"model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "num_hidden_layers": 30,
               "num_attention_heads": 9, "num_key_value_heads": 3, "intermediate_size": 1536,
               "max_position_embeddings": 2048, "tie_word_embeddings": true,
               "dllm": {"attention": "bidirectional", "shift": 0, "mask_token_id": 49151}})";
  if (name == "0.5b")
    return R"({"model_type": "qwen2", "vocab_size": 151936, "hidden_size": 896, "num_hidden_layers": 24,
               "num_attention_heads": 14, "num_key_value_heads": 2, "intermediate_size": 4864,
               "max_position_embeddings": 2048, "tie_word_embeddings": true,
               "dllm": {"attention": "bidirectional", "shift": 0, "mask_token_id": 151935}})";
  throw std::invalid_argument("--shape is 135m or 0.5b, not " + name);
}

double at_share(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))];
}

void print(const char* what, std::vector<double> ms) {
  std::sort(ms.begin(), ms.end());
  std::printf("%-14s p50 %7.2f  p99 %7.2f  max %7.2f ms over the budget\n", what, at_share(ms, 0.5),
              at_share(ms, 0.99), ms.back());
}

void measure(std::map<std::string, std::string>& given) {
  using Milliseconds = std::chrono::duration<double, std::milli>;
  const double budget = std::stod(given["--budget"]);
  const int64_t threads = std::stoll(given["--threads"]), steps = std::stoll(given["--steps"]);
  const dllm::Engine engine({{"threads", threads}});
  const dllm::Model model =
      dllm::Model::from_config(engine, shape_of(given["--shape"]), {{"dtype", given["--dtype"]}});
  dllm::Decoder decoder(model, {{"policy", "low_confidence"},
                                {"gen_length", kOpen},
                                {"block_length", kOpen},
                                {"steps", steps}});
  std::vector<int32_t> prompt(kPrompt);
  std::iota(prompt.begin(), prompt.end(), 1);
  decoder.start(prompt, 1);
  const Seconds warm = timed([&] { decoder.predict(); });
  std::vector<double> wall, cpu;
  for (int64_t active = 1; active > 0;) {
    const Seconds took = timed([&] { active = decoder.step_for(Milliseconds(budget)); });
    wall.push_back(1e3 * took.wall - budget);
    cpu.push_back(1e3 * took.cpu - budget * static_cast<double>(threads));
  }
  double load = 0;
  getloadavg(&load, 1);
  std::printf("%s in %s, budget %.1f ms, %lld threads: %lld steps in %zu slices, warm-up %.0f ms, "
              "load average %.1f\n",
              given["--shape"].c_str(), given["--dtype"].c_str(), budget,
              static_cast<long long>(threads), static_cast<long long>(steps), wall.size(),
              1e3 * warm.wall, load);
  print("wall", wall);
  print("processor time", cpu);
}

} // namespace

int main(int argc, char** argv) {
  std::map<std::string, std::string> given{{"--shape", "135m"},
                                           {"--budget", "4"},
                                           {"--threads", "1"},
                                           {"--dtype", "f32"},
                                           {"--steps", "8"}};
  try {
    for (int i = 1; i < argc; i += 2) {
      if (!given.contains(argv[i]) || i + 1 == argc)
        throw std::invalid_argument(std::string(argv[i]) + " is not an option with a value");
      given[argv[i]] = argv[i + 1];
    }
    measure(given);
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "%s\n", problem.what());
    return 1;
  }
  return 0;
}
