#pragma once
// Soft parallel decoding (DMax; github.com/czg1225/DMax): settings, its two formulas, one request under it, its graph form.

#include "decode/pass/pass.h"
#include "decode/request/policy.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace dllm::decode {

enum class SpdImplementation : uint8_t { reference, fast, kv_fast };

// Whose counts and defects are reproduced; see the option.
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

// Prepares request; its span is the policy's.
std::unique_ptr<Session> make_spd_session(const SpdSettings& settings, Request& request);

// Left to right: the masks before the first one whose probability is below the threshold; when that
// is none, the leftmost mask. open, probability: one entry per position, ascending. Decided
// positions in between do not end the scan.
std::vector<uint8_t> spd_decode_set(std::span<const uint8_t> open,
                                    std::span<const float> probability, float threshold);

// Tokens and weights of a decided position, `width` of them; weights that sum to less than 1 leave
// the rest to the mask's embedding.
struct SpdSoft {
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

// The `width` likeliest tokens of the prediction with their probabilities.
SpdSoft spd_likeliest(const Prediction& prediction, int64_t width);

} // namespace dllm::decode
