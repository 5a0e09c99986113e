#pragma once
// One request under multi-block decoding.

#include "decode/policies/multi_block.h"
#include "decode/policy.h"

#include <cstdint>
#include <memory>

namespace dllm::decode {

enum class MultiBlockKeep : uint8_t { none, exact, delayed };

// Whose defects are reproduced; see the option.
enum class MultiBlockCompat : uint8_t { none, castlehill, d3llm_llada, d3llm_dream };

struct MultiBlockSettings {
  PipelineSettings pipeline;
  int64_t block_length, cache_delay, cache_refresh;
  float entropy_threshold;
  bool surest;
  int32_t eos, mask_id;
  int shift;
  MultiBlockKeep keep;
  MultiBlockCompat compat;

  bool is_d3llm() const {
    return compat == MultiBlockCompat::d3llm_llada || compat == MultiBlockCompat::d3llm_dream;
  }
};

// Prepares slot; its span is the policy's.
std::unique_ptr<Session> make_multi_block_session(const MultiBlockSettings& settings, Slot& slot);

} // namespace dllm::decode
