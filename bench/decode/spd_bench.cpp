// Soft parallel decoding with forced work: blocks of 32, 8 steps in each whatever the model says
// (threshold 1 and confidence_stop 2 are never reached by random weights), prompt of 32 tokens.
//
//   bench_decode spd [--shape qwen3-0.6b|qwen2.5-0.5b|small] [--dtype f32|bf16|int8] [--arithmetic
//   f32|bf16|int8] [--turns 1]
//                    [--lengths 128,512,1024,2048] [--only kv_fast,fast,reference] [--peer]
//
// 128 new tokens are decoded in full, by a decoder. For more, one step of the block in the middle
// and of the last block is timed over a cache of made-up contents, and the whole is extrapolated
// from the middle one. --peer: the same in JAX on the same shape, in turns (jax_spd.py; DLLM_PYTHON
// is a python3 that has jax), 128 new tokens.

#include "bed.h"
#include "decode/decoder/decoder.h"

#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <sstream>

namespace dllm::decode {
namespace {

constexpr int64_t kPrompt = 32, kBlock = 32, kSteps = 8, kFull = 128;

struct Plan {
  std::string shape = "qwen3-0.6b", dtype = "f32", arithmetic = "f32";
  std::vector<std::string> lengths = {"128", "512", "1024", "2048"};
  std::vector<std::string> implementations = {"kv_fast", "fast", "reference"};
  int turns = 1;
  bool peer = false;
};

std::vector<std::string> parts(const std::string& list) {
  std::vector<std::string> all;
  std::istringstream in(list);
  for (std::string part; std::getline(in, part, ',');) all.push_back(part);
  return all;
}

Plan plan_of(const std::vector<std::string>& words) {
  Plan plan;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--peer") {
      plan.peer = true;
      continue;
    }
    const std::string value = i + 1 < words.size() ? words[i + 1] : "";
    if (words[i] == "--shape") plan.shape = value;
    if (words[i] == "--dtype") plan.dtype = value;
    if (words[i] == "--arithmetic") plan.arithmetic = value;
    if (words[i] == "--turns") plan.turns = std::max(1, std::atoi(value.c_str()));
    if (words[i] == "--lengths") plan.lengths = parts(value);
    if (words[i] == "--only") plan.implementations = parts(value);
    ++i;
  }
  return plan;
}

// Positions from which the window of a pass for the block at `begin` runs, and where it ends.
struct Window {
  int64_t begin, end;
};
Window window_of(const std::string& implementation, int64_t begin, int64_t length) {
  if (implementation == "kv_fast") return {begin, begin + kBlock};
  return {0, implementation == "fast" ? length : begin + kBlock};
}

// Of the whole decoding: prefill, 8 steps a block, and a commit between blocks with a cache.
double whole_flops(const model::ModelConfig& c, const std::string& implementation,
                   int64_t new_tokens) {
  const bool cached = implementation == "kv_fast";
  const int64_t length = kPrompt + new_tokens;
  double flops = cached ? pass_flops(c, kPrompt, kPrompt, 0) : 0;
  for (int64_t begin = kPrompt; begin < length; begin += kBlock) {
    const Window window = window_of(implementation, begin, length);
    // Rows of a block see up to its end: on average half of the window without a cache.
    const int64_t keys = cached ? window.end : (window.end + kBlock) / 2;
    flops += kSteps * pass_flops(c, window.end - window.begin, keys, kBlock);
    if (cached && begin + kBlock < length) flops += pass_flops(c, kBlock, window.end, 0);
  }
  return flops;
}

class Run {
public:
  Run(const std::shared_ptr<model::Model>& model, const std::string& implementation)
      : decoder_(model, options(implementation)) {
    for (int64_t i = 0; i < kPrompt; ++i)
      prompt_.push_back(static_cast<int32_t>((i * 7919 + 13) % model->config().vocab_size));
  }

  // Another prompt each time, else the cache would know it from the time before.
  void start() {
    ++prompt_[0];
    decoder_.start(prompt_, 0);
  }
  void warm() { // packs weights; maps what the engine needs
    start();
    decoder_.step();
    decoder_.step();
  }
  Seconds decode() {
    start();
    steps_.clear();
    return timed([&] {
      for (bool more = true; more;) steps_.push_back(timed([&] { more = decoder_.step() > 0; }));
    });
  }
  const std::vector<Seconds>& steps() const { return steps_; }
  int64_t passes(const char* kind) const { return static_cast<int64_t>(decoder_.metric(-1, kind)); }

private:
  static Options options(const std::string& implementation) {
    Options options(decoder_schema("spd"));
    options.set_json(Json{{"implementation", implementation},
                          {"gen_length", kFull},
                          {"block_length", kBlock},
                          {"steps", kSteps},
                          {"threshold", 1.0},
                          {"confidence_stop", 2.0},
                          {"suppress_mask", true},
                          {"trace", false}});
    return options;
  }

  Decoder decoder_;
  std::vector<int32_t> prompt_;
  std::vector<Seconds> steps_;
};

// Rates of dllm and of the peer; the ratio is the median over the turns.
void print_peer(const std::string& implementation, const std::vector<Seconds>& own,
                const std::vector<Seconds>& other) {
  std::vector<double> walls, cpus;
  for (size_t i = 0; i < other.size(); ++i) {
    walls.push_back(other[i].wall / own[i].wall);
    cpus.push_back(other[i].cpu / own[i].cpu);
  }
  std::sort(walls.begin(), walls.end());
  std::sort(cpus.begin(), cpus.end());
  const Seconds taken = median(other);
  fmt::print("{:<10} JAX: {:.2f} tokens/s, wall {:.1f} s, cpu {:.1f} s; ratio over {} turns: wall "
             "{:.2f} ({:.2f} to {:.2f}), cpu {:.2f}; above 1: dllm is faster\n",
             implementation, kFull / taken.wall, taken.wall, taken.cpu, other.size(),
             walls[walls.size() / 2], walls.front(), walls.back(), cpus[cpus.size() / 2]);
}

void full(const std::shared_ptr<model::Model>& model, const Plan& plan, Peer* peer) {
  const double peak = model->engine().peak_flops(); // of all threads
  const auto threads = static_cast<double>(model->engine().i64("threads"));
  fmt::print("\n{} new tokens in full, peak {:.0f} GFLOP/s (f32)\n", kFull, peak * 1e-9);
  fmt::print("{:<10} {:>9} {:>8} {:>8} {:>9} {:>9}  {:<22} {:>8} {:>9} {:>9}\n", "", "tokens/s",
             "wall s", "cpu s", "ms/step", "cpu ms", "steps/prefills/commits", "bound s", "of wall",
             "of cpu");
  std::map<std::string, std::vector<Seconds>> own, other, steps;
  std::map<std::string, std::array<int64_t, 3>> passes;
  std::map<std::string, std::unique_ptr<Run>> runs;
  for (const std::string& name : plan.implementations) {
    runs[name] = std::make_unique<Run>(model, name);
    runs[name]->warm();
  }
  for (int turn = 0; turn < plan.turns; ++turn) {
    for (const std::string& name : plan.implementations) {
      Run& run = *runs.at(name);
      own[name].push_back(run.decode());
      steps[name].insert(steps[name].end(), run.steps().begin(), run.steps().end());
      passes[name] = {run.passes("steps"), run.passes("prefills"), run.passes("commits")};
      if (peer != nullptr && peer->ready() && name != "reference")
        other[name].push_back(peer->repeat(name.c_str()));
    }
  }
  for (const std::string& name : plan.implementations) {
    const Seconds taken = median(own[name]), step = median(steps[name]);
    const double bound = whole_flops(model->config(), name, kFull) / peak;
    const auto& [count, prefills, commits] = passes[name];
    fmt::print("{:<10} {:>9.2f} {:>8.1f} {:>8.1f} {:>9.0f} {:>9.0f}  {:<22} {:>8.1f} {:>8.0f}% "
               "{:>8.0f}%\n",
               name, kFull / taken.wall, taken.wall, taken.cpu, step.wall * 1e3, step.cpu * 1e3,
               fmt::format("{}/{}/{}", count, prefills, commits), bound, 100 * bound / taken.wall,
               100 * threads * bound / taken.cpu);
  }
  for (const std::string& name : plan.implementations) {
    if (!other[name].empty()) print_peer(name, own[name], other[name]);
  }
}

// Some steps of one block, the first (compiles) left out where a step is short.
Seconds block_step(const std::shared_ptr<model::Model>& model, const std::string& implementation,
                   int64_t begin, int64_t length, int64_t predicted = kBlock) {
  PassSettings settings;
  settings.needs.soft_width = 1;
  settings.banned.assign(static_cast<size_t>(model->config().vocab_size), 0);
  Bed bed(model, begin, kBlock, length - begin - kBlock, settings);
  if (implementation != "kv_fast") bed.leave_cache(window_of(implementation, begin, length).end);
  bed.ask.positions.resize(static_cast<size_t>(predicted));
  for (int64_t i = 0; i < predicted / 4; ++i) bed.ask.soft.push_back({begin + i, {7}, {0.5f}});
  std::vector<Seconds> all = {bed.pass()};
  if (all[0].wall > 8) return all[0];
  double spent = 0;
  for (int64_t i = 0; i < kSteps && spent < 12; ++i) {
    all.push_back(bed.pass());
    spent += all.back().wall;
  }
  all.erase(all.begin());
  return median(all);
}

void extrapolated(const std::shared_ptr<model::Model>& model, const Plan& plan,
                  int64_t new_tokens) {
  const int64_t length = kPrompt + new_tokens, blocks = new_tokens / kBlock;
  const int64_t last = length - kBlock, middle = kPrompt + blocks / 2 * kBlock;
  for (const std::string& name : plan.implementations) {
    const Seconds in_middle = block_step(model, name, middle, length),
                  in_last = block_step(model, name, last, length);
    double total = static_cast<double>(blocks * kSteps) * in_middle.wall;
    if (name == "kv_fast") // commits, and a prefill of one block
      total += static_cast<double>(blocks) * block_step(model, name, middle, length, 0).wall;
    const double bound =
        whole_flops(model->config(), name, new_tokens) / model->engine().peak_flops();
    fmt::print("{:>6} {:<10} {:>10.0f} {:>8.0f} {:>10.0f} {:>8.0f} {:>12.1f} {:>10.2f} {:>9.1f} "
               "{:>8.0f}%\n",
               new_tokens, name, in_middle.wall * 1e3, in_middle.cpu * 1e3, in_last.wall * 1e3,
               in_last.cpu * 1e3, total, static_cast<double>(new_tokens) / total, bound,
               100 * bound / total);
    std::fflush(stdout);
  }
}

std::unique_ptr<Peer> start_peer(const Plan& plan, const model::ModelConfig& c) {
  if (!plan.peer) return nullptr;
  std::vector<std::string> words;
  for (const int64_t number : {c.layers, c.hidden_size, c.heads, c.kv_heads, c.head_dim,
                               c.intermediate_size, c.vocab_size, kPrompt, kFull, kBlock, kSteps})
    words.push_back(std::to_string(number));
  auto peer = std::make_unique<Peer>(DLLM_JAX_SPD, words);
  if (!peer->ready()) fmt::print("JAX is absent: set DLLM_PYTHON to a python3 that has jax\n");
  return peer;
}

} // namespace

void bench_spd(const std::vector<std::string>& words) {
  const Plan plan = plan_of(words);
  const auto model = make_model(plan.shape, plan.dtype, plan.arithmetic);
  const auto peer = start_peer(plan, model->config());
  print_machine(static_cast<int>(model->engine().i64("threads")));
  std::fflush(stdout);
  fmt::print("{} with {} weights, arithmetic {}, spd: prompt {}, blocks of {}, {} forced steps in "
             "each\n",
             plan.shape, plan.dtype, plan.arithmetic, kPrompt, kBlock, kSteps);
  bool first = true;
  for (const std::string& length : plan.lengths) {
    if (length == std::to_string(kFull)) {
      full(model, plan, peer.get());
      continue;
    }
    if (first) {
      fmt::print("\none step of the block in the middle and of the last one; total and tokens/s "
                 "are EXTRAPOLATED from the middle one\n{:>6} {:<10} {:>10} {:>8} {:>10} {:>8} "
                 "{:>12} {:>10} {:>9} {:>9}\n",
                 "new", "", "middle ms", "cpu ms", "last ms", "cpu ms", "total s", "tokens/s",
                 "bound s", "of wall");
    }
    first = false;
    extrapolated(model, plan, std::atoll(length.c_str()));
  }
}

} // namespace dllm::decode
