#pragma once
// This header has the settings, the session and the two formulas of soft parallel decoding (DMax;
// github.com/czg1225/DMax).

#include "decode/pass/pass.h"
#include "decode/request/policy.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace dllm::decode {

enum class SpdImplementation : uint8_t { reference, fast, kv_fast };

// The implementation whose counts and defects are reproduced (option compat).
enum class SpdCompat : uint8_t { none, dllm_jax, dllm_jax_batch, dmax };

struct SpdSettings {
  int64_t block_length, steps, minimal_topk, mix_top_k, bucket_length;
  float threshold, confidence_stop;
  int32_t eos, mask_id;
  bool eos_fill;
  int shift;
  SpdImplementation implementation;
  SpdCompat compat;

  bool is_jax() const {
    return compat == SpdCompat::dllm_jax || compat == SpdCompat::dllm_jax_batch;
  }
};

// Returns the session and prepares `request`. The caller has set the span of `request`.
std::unique_ptr<Session> make_spd_session(const SpdSettings& settings, Request& request);

// Returns 1 for each mask to decide. The scan goes from the left and ends at the first mask whose
// probability is below the threshold. The leftmost mask is always decided. Decided positions in
// between do not end the scan. open, probability: one entry per position, ascending.
std::vector<uint8_t> spd_decode_set(std::span<const uint8_t> open,
                                    std::span<const float> probability, float threshold);

// Tokens and weights of the soft input of a decided position, `width` of each. If the weights sum
// to less than 1, the rest is the weight of the mask's embedding.
struct SpdSoft {
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

// Returns the `width` likeliest tokens of the prediction with their probabilities.
SpdSoft spd_likeliest(const Prediction& prediction, int64_t width);

} // namespace dllm::decode
