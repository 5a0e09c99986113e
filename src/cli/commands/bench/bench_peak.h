#pragma once
// The arithmetic that this chip does at best: a loop of multiply-adds in registers, on every thread.

#include <cstdint>
#include <string>

namespace dllm::cli {

class PeakLoop {
public:
  // arithmetic: f32, bf16 or int8. Without instructions for it, the best loop of f32.
  PeakLoop(const std::string& arithmetic, int64_t threads);

  // Operations per second of all threads together, over about `seconds`; a multiply-add counts as 2.
  double measure(double seconds) const;
  // The same in the 2 ms after a work, the best of four looks. A chip that lowers its clock under products, which load and
  // store in addition to their multiply-adds, takes some 10 ms to raise it again: these are the operations it could have done.
  double measure_at_clock() const;
  // What is multiplied: "avx512 f32", "avx512 bf16", "avx512 int8", "amx bf16", "amx int8", "avx2 f32", "neon f32", "plain f32".
  const std::string& name() const { return name_; }

private:
  double best_of(int looks, double seconds, int64_t rounds) const;
  using Loop = double (*)(int64_t rounds, float start); // returns a sum that depends on all results
  Loop loop_;
  double operations_; // of one round
  std::string name_;
  int64_t threads_;
};

// Four tiles of sums, 4 x 16 x 16 x 32 multiply-adds of bf16 (int8: 64) in a round (bench_peak_amx.cpp).
bool has_amx_peak();
double peak_bf16_amx(int64_t rounds, float start);
double peak_int8_amx(int64_t rounds, float start);

} // namespace dllm::cli
