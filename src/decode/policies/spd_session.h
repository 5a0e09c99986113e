#pragma once
// One request under soft parallel decoding.

#include "decode/policy.h"

#include <cstdint>
#include <memory>

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

// Prepares slot; its span is the policy's.
std::unique_ptr<Session> make_spd_session(const SpdSettings& settings, Slot& slot);

} // namespace dllm::decode
