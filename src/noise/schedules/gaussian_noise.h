#pragma once
// Draws uniform noise as the argmax of Gaussian noise (Sahoo et al. 2025, Duo, arXiv 2506.10892).
// Over K tokens let
//   w = a onehot(x) + s N(0, I),  a^2 = sigmoid(-gamma),  s^2 = sigmoid(gamma).
// The largest entry of w is at x with probability alpha + (1 - alpha) / K, alpha = T(gamma), and at
// every other token with equal probability. Early in training the model reads softmax(w /
// temperature), which is close to the argmax but has less variance.
// Only the largest entries of w are drawn, as order statistics, so a token costs the same for any
// K.

#include "base/random.h"

#include <array>
#include <cstdint>

namespace dllm::noise {

// Returns T(gamma) = (K I - 1) / (K - 1), where I is the integral over z of phi(z - a / s)
// Phi(z)^(K - 1).
double gaussian_alpha(double gamma, int64_t tokens);

// Entries that are kept: the clean token and the 7 largest of the others.
inline constexpr int64_t kSoftTokens = 8;
struct SoftToken {
  int64_t noisy = 0; // argmax w
  std::array<int64_t, kSoftTokens> tokens{};
  std::array<float, kSoftTokens> weights{}; // add up to 1; 0: not used
};
// Draws one token with the random numbers [number * 2 kSoftTokens, (number + 1) * 2 kSoftTokens) of
// the key. `clean` is in [0, tokens), and `tokens` is at least 2.
SoftToken draw_soft_token(Key key, uint64_t number, int64_t clean, int64_t tokens, double gamma,
                          double temperature);

} // namespace dllm::noise
