#pragma once
// Maximum and sum of exp(x - maximum) of a row that comes in pieces. Pieces are cut at multiples of
// 512 whatever the caller hands in (its pieces are multiples of 512 but for the last), so the bits
// do not depend on the caller. An element that is NaN or +infinity makes the sums NaN.

#include <cstdint>
#include <limits>

namespace dllm::cpu {

struct OnlineSoftmax {
  float maximum = -std::numeric_limits<float>::infinity();
  double sum = 0;
  double weighted = 0; // sum of exp(x - maximum) x; only by add_with_entropy

  void add(float* x, int64_t n); // overwrites x with exp(x - maximum so far)
  void add_with_entropy(const float* x, int64_t n);
  float log_sum_exp() const;
  float entropy() const; // -sum p log p in nats

private:
  void raise(float candidate);
};

// exp and log of one number by the vector functions: the same bits on every chip.
float exact_exp(float x);
float exact_log(float x);

} // namespace dllm::cpu
