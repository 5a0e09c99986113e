#pragma once
// Vector functions over rows, for the best instruction set of this chip. Sums use 16 virtual lanes
// and one fixed tree, so every instruction set gives the same bits. Pointers may be unaligned.

#include <cstddef>
#include <cstdint>
#include <limits>

namespace dllm::cpu {

enum class Activation { silu, gelu, gelu_tanh, relu };

struct AdamWScalars {
  float lr, beta1, beta2, eps, weight_decay, correction1, correction2, gradient_scale;
};

// Rows that a later call reads, of `bytes` each.
struct RowsAhead {
  const std::byte* const* rows = nullptr;
  int64_t count = 0, bytes = 0;
};

// A product c (rows, columns) = a (rows, k) b^T, where b (columns, k) is in panels (gemm.h). With
// `load` it is added to c.
struct ChainCall {
  const float* a;
  int64_t a_stride, a_step; // one of them is 1
  const float* b;
  float* c;
  int64_t c_stride;
  int64_t rows, columns, k; // columns is a multiple of 16
  bool load;                // the chains begin with c
  RowsAhead ahead;          // rows to prefetch during the call
};

// The table of the row functions. A null weight counts as ones, a null bias as zeros. A function
// X_grad computes the gradient of X.
struct Rows {
  // y = x / sqrt(mean(x^2) + eps) * weight
  void (*rms_norm)(const float* x, const float* weight, int64_t n, float eps, float* y);
  // Adds the share of this row to dweight_sum, which may be null.
  void (*rms_norm_grad)(const float* x, const float* dy, const float* weight, int64_t n, float eps,
                        float* dx, float* dweight_sum);
  // y = (x - mean) / sqrt(variance + eps) * weight + bias
  void (*layer_norm)(const float* x, const float* weight, const float* bias, int64_t n, float eps,
                     float* y);
  void (*layer_norm_grad)(const float* x, const float* dy, const float* weight, int64_t n,
                          float eps, float* dx, float* dweight_sum, float* dbias_sum);

  // Writes cosine and sine of position * inv_freq[i], times amplitude. The angle is rounded to f32,
  // as in other implementations.
  void (*rope_table)(float position, const float* inv_freq, int64_t half, float amplitude,
                     float* cosine, float* sine);
  // Rotates the pairs (i, i + half), or (2i, 2i + 1) when interleaved.
  void (*rope)(const float* x, const float* cosine, const float* sine, int64_t half,
               bool interleaved, float* y);

  // y = act(x)
  void (*activation)(Activation kind, const float* x, int64_t n, float* y);
  void (*activation_grad)(Activation kind, const float* x, const float* dy, int64_t n, float* dx);
  // y = act(gate) * up
  void (*gated)(Activation kind, const float* gate, const float* up, int64_t n, float* y);
  void (*gated_grad)(Activation kind, const float* gate, const float* up, const float* dy,
                     int64_t n, float* dgate, float* dup);

  void (*adamw)(const float* parameter, const float* gradient, const float* first,
                const float* second, const AdamWScalars& s, int64_t n, float* parameter_out,
                float* first_out, float* second_out);
  float (*sum_of_squares)(const float* x, int64_t n);

  // y += x; x *= factor; returns the sum of x y
  void (*add_to)(const float* x, int64_t n, float* y);
  void (*scale)(float factor, int64_t n, float* x);
  float (*product_sum)(const float* x, const float* y, int64_t n);
  // Returns the largest element, or -infinity when n is 0.
  float (*max)(const float* x, int64_t n);
  void (*chains)(const ChainCall& call);
  // y = exp(x * factor - shift), also in place; returns the sum of y.
  float (*exp_sum)(const float* x, float factor, float shift, int64_t n, float* y);
  // Do the same for each of `columns` columns of x (n, stride), with the bits of max and exp_sum.
  // column_max writes the largest element of column c to highest[c]. column_exp computes x = exp(x
  // * factor - shift[c]) in place and adds the sum of column c to sums[c]. REQUIRES: `columns` is a
  // multiple of 16, no exponent is above 0.
  void (*column_max)(const float* x, int64_t n, int64_t stride, int64_t columns, float* highest);
  void (*column_exp)(float* x, float factor, const float* shift, int64_t n, int64_t stride,
                     int64_t columns, float* sums);
  // Writes e = exp(x - shift), the sum of e, and the sum of e * x. Elements of -infinity add 0.
  void (*exp_moments)(const float* x, float shift, int64_t n, float* e, float* sum,
                      float* weighted);
  // x = factor * x, then cap * tanh(x / cap) when cap > 0
  void (*scores)(float factor, float cap, int64_t n, float* x);
  // Computes p = exp(s - lse) and ds = p * (dp - shift) * factor, times 1 - (s / cap)^2 when cap >
  // 0. p overwrites s, and ds overwrites dp.
  void (*score_grads)(float lse, float shift, float factor, float cap, int64_t n, float* s,
                      float* dp);

  // Rounds to the nearest bf16, with ties to even.
  void (*round_bf16)(const float* x, int64_t n, uint16_t* y);
  // y = x; y = x * scale
  void (*widen_bf16)(const uint16_t* x, int64_t n, float* y);
  void (*widen_i8)(const int8_t* x, float scale, int64_t n, float* y);

  // Return bits, where bit i is x[i] == value, or x[i] != 0. REQUIRES: n <= 64.
  uint64_t (*equal_bits)(const int32_t* x, int32_t value, int64_t n);
  uint64_t (*nonzero_bits)(const uint8_t* x, int64_t n);
};

const Rows& rows();

// The running maximum and sum of a softmax whose logits are added in pieces.
struct OnlineSoftmax {
  float maximum = -std::numeric_limits<float>::infinity();
  const float* piece = nullptr; // start of the first piece with the maximum
  double sum = 0;
  double weighted = 0; // sum of exp(x - maximum) x, set only by add_with_entropy

  static constexpr int64_t kPiece = 512;

  void add(float* x, int64_t n); // overwrites x with exp(x - maximum so far)
  void add_with_entropy(const float* x, int64_t n);
  float log_sum_exp() const;
  float entropy() const; // -sum p log p in nats

private:
  void raise(float candidate, const float* x);
};

// Return exp and log of one number. They use the vector functions, so the bits are the same on
// every chip.
float exact_exp(float x);
float exact_log(float x);

} // namespace dllm::cpu
