// Decoding on the shape of Qwen3-0.6B (or a small one) with random weights.
//
//   bench_decode context [--small] [--shape qwen2.5-0.5b] [--lengths 1024,2048] [--cache f32|bf16]
//                                      one step of a block of 32 over a cache of 1k to 32k tokens
//   bench_decode shapes  [--small]     compiling a pass; passes padded to a rung and exact
//   (Qwen2.5-0.5B)
//   bench_decode share   [--small]     what head and sampler cost of such a step
//   bench_decode prefill [--small]     31 steps of 32 positions with one prompt of 2,000: one
//   program, and grouped
//   bench_decode arithmetic [--small]  a pass over a whole window and a step of 32, bf16 and int8
//   next to f32 (Qwen2.5-0.5B)
//   bench_decode spd     [...]         soft parallel decoding, see spd_bench.cpp
//
// Bound of a pass: 2 flops per weight and row, at the peak the engine measures.

#include "bed.h"

#include <deque>
#include <sstream>

namespace {

using namespace dllm;
using namespace dllm::decode;

// The words behind `name`, cut at commas.
std::vector<std::string> values_of(const std::vector<std::string>& words, const std::string& name,
                                   const std::string& otherwise) {
  const auto found = std::find(words.begin(), words.end(), name);
  const bool given = found != words.end() && found + 1 != words.end();
  std::istringstream in(given ? found[1] : otherwise);
  std::vector<std::string> all;
  for (std::string part; std::getline(in, part, ',');) all.push_back(part);
  return all;
}

// Bound: the flops at the peak, or the bytes of weights and cache at the bandwidth, whichever takes
// longer.
void context_cost(const std::string& shape, const std::vector<std::string>& words) {
  const auto model = make_model(shape, "f32", "f32", values_of(words, "--cache", "f32")[0]);
  const double peak = model->engine().peak_flops();
  const auto threads = static_cast<int>(model->engine().i64("threads"));
  const double bandwidth = read_bandwidth(threads);
  print_machine(threads);
  fmt::print("one step of 32 positions of {}, peak {:.1f} GFLOP/s, reads {:.1f} GB/s\n", shape,
             peak * 1e-9, bandwidth * 1e-9);
  fmt::print("{:>8} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "context", "wall ms", "cpu ms",
             "flops ms", "bytes ms", "of bound", "cache MB");
  for (const std::string& text : values_of(words, "--lengths", "1024,2048,4096,8192,16384,32768")) {
    const int64_t context = std::atoll(text.c_str());
    Bed bed(model, context, 32);
    const Seconds taken = bed.median_pass(5);
    const double flops = pass_flops(model->config(), 32, context + 32, 32) / peak;
    const double bytes =
        (4.0 * static_cast<double>(model->i64("params")) + static_cast<double>(bed.state.bytes())) /
        bandwidth;
    fmt::print("{:>8} {:>10.1f} {:>10.1f} {:>10.1f} {:>10.1f} {:>9.0f}% {:>10.0f}\n", context,
               taken.wall * 1e3, taken.cpu * 1e3, flops * 1e3, bytes * 1e3,
               100 * std::max(flops, bytes) / taken.wall,
               static_cast<double>(bed.state.bytes()) * 1e-6);
  }
}

// What compiling a pass costs, and passes of windows between two rungs: padded to the rung, and
// exact, in turns.
void exact_shapes(const std::string& shape) {
  const auto model = make_model(shape);
  print_machine(static_cast<int>(model->engine().i64("threads")));
  fmt::print("{:>8} {:>12} {:>12} {:>12} {:>7}\n", "window", "compile ms", "padded ms", "exact ms",
             "ratio");
  for (const int64_t window : {36, 100, 260}) {
    Rounding exact = rounding_of(*model);
    Bed padded(model, 224, window, 0, {}, Rounding{}), own(model, 224, window, 0, {}, exact);
    const PassRow row{&own.slot, &own.ask, 0};
    const Seconds compile = timed([&] {
      PassShape made =
          pass_shape(model->config(), std::span<const PassRow>(&row, 1), {1, 512, 0}, 0, exact);
      made.capacity = head_capacity(window);
      auto graph = std::make_shared<graph::Graph>("denoise");
      build_pass(*graph, *model, made);
      model->engine().compile(std::move(graph));
    });
    std::vector<Seconds> in_rung, in_own;
    for (int turn = -1; turn < 7; ++turn) {
      const Seconds a = padded.pass(), b = own.pass();
      if (turn < 0) continue; // compiles
      in_rung.push_back(a);
      in_own.push_back(b);
    }
    const double a = median(in_rung).wall, b = median(in_own).wall;
    fmt::print("{:>8} {:>12.2f} {:>12.1f} {:>12.1f} {:>7.2f}\n", window, compile.wall * 1e3,
               a * 1e3, b * 1e3, a / b);
  }
}

// The same pass with the head and the sampler over 32 positions, and over none, in turns.
void share(const std::string& shape) {
  const auto model = make_model(shape);
  print_machine(static_cast<int>(model->engine().i64("threads")));
  Bed whole(model, 1024, 32), bare(model, 1024, 32);
  bare.ask.positions.clear();
  std::vector<Seconds> with, without;
  for (int turn = -1; turn < 9; ++turn) {
    const Seconds a = whole.pass(), b = bare.pass();
    if (turn < 0) continue; // compiles
    with.push_back(a);
    without.push_back(b);
  }
  const Seconds a = median(with), b = median(without);
  const model::ModelConfig& c = model->config();
  const double product =
      2.0 * 32 * static_cast<double>(c.vocab_size * c.hidden_size) / model->engine().peak_flops();
  fmt::print("step                     wall {:.1f} ms, processor time {:.1f} ms\n", a.wall * 1e3,
             a.cpu * 1e3);
  fmt::print("without head and sampler wall {:.1f} ms, processor time {:.1f} ms\n", b.wall * 1e3,
             b.cpu * 1e3);
  fmt::print("head and sampler are {:.0f}% of wall, {:.0f}% of processor time; the head's product "
             "alone takes {:.1f} ms at peak\n",
             100 * (1 - b.wall / a.wall), 100 * (1 - b.cpu / a.cpu), product * 1e3);
}

// The rows of one pass as one program, padded to the prompt, and in groups of similar windows.
void prefill_with_steps(const std::string& shape) {
  const auto model = make_model(shape);
  print_machine(static_cast<int>(model->engine().i64("threads")));
  DecodeState state(model);
  PassProgram program(model);
  std::deque<Bed> beds;
  std::vector<PassRow> rows;
  for (int64_t i = 0; i < 32; ++i) {
    Bed& bed = beds.emplace_back(model, i == 0 ? 0 : 256, i == 0 ? 2000 : 32);
    rows.push_back({&bed.slot, &bed.ask, state.acquire(bed.slot.length(), {}, bed.slot.span)});
  }
  beds[0].ask.positions.clear(); // fills the cache
  const Weights weights = weights_of(*model);
  const auto run = [&](bool grouped) {
    std::vector<size_t> all(rows.size());
    std::iota(all.begin(), all.end(), size_t{0});
    for (const auto& group : grouped ? window_groups(rows, program.rounding())
                                     : std::vector<std::vector<size_t>>{all}) {
      std::vector<PassRow> own;
      for (const size_t i : group) own.push_back(rows[i]);
      program.run(own, {}, state, weights, 31 * 32, nullptr);
    }
  };
  for (const bool grouped : {false, true}) {
    run(grouped); // compiles
    const int64_t before = program.computed();
    const Seconds taken = timed([&] { run(grouped); });
    fmt::print("{:<12} {:>8} positions  wall {:>8.1f} ms, processor time {:>8.1f} ms\n",
               grouped ? "grouped" : "one program", program.computed() - before, taken.wall * 1e3,
               taken.cpu * 1e3);
  }
}

// Passes of one model in f32 and in the other arithmetic of its format, in turns.
void arithmetics(const std::string& shape) {
  fmt::print("{:<6} {:<6} {:>5} {:>10} {:>10} {:>7} {:>12}\n", "dtype", "in", "rows", "f32 ms",
             "ms", "ratio", "GOP/s");
  for (const auto& [dtype, arithmetic] :
       {std::pair{"bf16", "bf16"}, {"int8", "int8"}, {"q8_0", "int8"}}) {
    const auto exact = make_model(shape, dtype), rounded = make_model(shape, dtype, arithmetic);
    for (const int64_t rows : {32, 256}) {
      const int64_t context = rows == 32 ? 224 : 0;
      Bed a(exact, context, rows), b(rounded, context, rows);
      if (context == 0) {
        a.leave_cache(rows);
        b.leave_cache(rows);
      }
      std::vector<Seconds> in_f32, in_other;
      for (int turn = -1; turn < 7; ++turn) {
        const Seconds one = a.pass(), two = b.pass();
        if (turn < 0) continue; // compiles
        in_f32.push_back(one);
        in_other.push_back(two);
      }
      const double f32 = median(in_f32).wall, other = median(in_other).wall;
      fmt::print("{:<6} {:<6} {:>5} {:>10.1f} {:>10.1f} {:>7.2f} {:>12.1f}\n", dtype, arithmetic,
                 rows, f32 * 1e3, other * 1e3, f32 / other,
                 pass_flops(exact->config(), rows, context + rows, rows) / other * 1e-9);
    }
  }
}

} // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::string what = words.empty() ? "" : words[0];
  const bool small = std::find(words.begin(), words.end(), "--small") != words.end();
  try {
    if (what == "context")
      context_cost(small ? "small" : values_of(words, "--shape", "qwen3-0.6b")[0], words);
    else if (what == "shapes")
      exact_shapes(small ? "small" : "qwen2.5-0.5b");
    else if (what == "share")
      share(small ? "small" : "qwen3-0.6b");
    else if (what == "prefill")
      prefill_with_steps(small ? "small" : "qwen3-0.6b");
    else if (what == "arithmetic")
      arithmetics(small ? "small" : "qwen2.5-0.5b");
    else if (what == "spd")
      bench_spd({words.begin() + 1, words.end()});
    else if (what == "loop")
      bench_loop({words.begin() + 1, words.end()});
    else {
      fmt::print("bench_decode context|shapes|share|prefill|arithmetic [--small]\nbench_decode spd "
                 "[--shape qwen3-0.6b] "
                 "[--dtype f32] [--lengths 128,512,1024,2048] [--turns 1] [--peer]\n"
                 "bench_decode loop [--shape small] [--plugin P] [--turns 3]\n");
      return 2;
    }
  } catch (const Error& error) {
    fmt::print("{}\n{}\n", error.text(), error.hint());
    return 1;
  }
  return 0;
}
