#pragma once
// Divergence finds a training whose losses stay far above the lowest that it had.

#include <cstdint>
#include <deque>
#include <string>

namespace dllm::cli {

class Divergence {
public:
  // Takes the loss of a step, in nats. Returns a sentence when each of the last kCount losses is
  // above twice the lowest mean plus 1 nat; else "". One batch may have any loss.
  std::string add(int64_t step, double loss);

  static constexpr size_t kCount = 20; // losses of a mean

private:
  std::deque<double> last_;
  double lowest_ = 0;
  int64_t lowest_step_ = -1; // -1: no loss was added
};

} // namespace dllm::cli
