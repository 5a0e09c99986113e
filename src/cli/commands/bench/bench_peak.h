#pragma once
// A PeakLoop measures the fastest arithmetic of this chip: multiply-adds in registers, on all
// threads.

#include <cstdint>
#include <string>

namespace dllm::cli {

class PeakLoop {
public:
  // arithmetic: f32, bf16 or int8. When the chip lacks instructions for it, the fastest loop of f32
  // is used.
  PeakLoop(const std::string& arithmetic, int64_t threads);

  // Returns the operations per second of all threads together, measured over about `seconds`. A
  // multiply-add counts as 2 operations.
  double measure(double seconds) const;
  // Returns the best of four measurements in the 2 ms after a work. A chip may lower its clock
  // under products, which load and store in addition to their multiply-adds. It takes some 10 ms to
  // raise the clock again, so this is the peak at the clock of the work.
  double measure_at_clock() const;
  // Returns instructions and type of the loop: "avx512 f32", "avx512 bf16", "avx512 int8",
  // "amx bf16", "amx int8", "avx2 f32", "neon f32" or "plain f32".
  const std::string& name() const { return name_; }

private:
  double best_of(int looks, double seconds, int64_t rounds) const;
  using Loop = double (*)(int64_t rounds, float start); // returns a sum that depends on all results
  Loop loop_;
  double operations_; // operations of one round of one thread
  std::string name_;
  int64_t threads_;
};

// Loops over four AMX tiles of sums (bench_peak_amx.cpp). A round has 4 x 16 x 16 x 32
// multiply-adds of bf16, or 4 x 16 x 16 x 64 of int8.
bool has_amx_peak();
double peak_bf16_amx(int64_t rounds, float start);
double peak_int8_amx(int64_t rounds, float start);

} // namespace dllm::cli
