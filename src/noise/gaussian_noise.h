#pragma once
// Uniform noise as the argmax of Gaussian noise (Sahoo et al. 2025, Duo, arXiv 2506.10892): with a^2 = sigmoid(-gamma) and
// s^2 = sigmoid(gamma), w = a onehot(x) + s N(0, I) over K tokens has its largest entry at x with probability
// alpha + (1 - alpha) / K, alpha = T(gamma), and at any other token equally often. Early in training the model reads
// softmax(w / temperature), which is nearly the argmax but has less variance. Of w only the largest entries count: they are
// drawn as order statistics, so a token costs the same for any K.

#include "base/random.h"

#include <array>
#include <cstdint>

namespace dllm::noise {

// T(gamma): (K I - 1) / (K - 1) with I the integral over z of phi(z - a / s) Phi(z)^(K - 1).
double gaussian_alpha(double gamma, int64_t tokens);

inline constexpr int64_t kSoftTokens =
    8; // entries that are kept: the clean token and the 7 largest of the others
struct SoftToken {
  int64_t noisy = 0; // argmax w
  std::array<int64_t, kSoftTokens> tokens{};
  std::array<float, kSoftTokens> weights{}; // sum to 1; 0: not used
};
// Uses the draws [number * 2 kSoftTokens, (number + 1) * 2 kSoftTokens) of the key. clean in [0, tokens), tokens >= 2.
SoftToken draw_soft_token(Key key, uint64_t number, int64_t clean, int64_t tokens, double gamma,
                          double temperature);

} // namespace dllm::noise
