#pragma once
// Multi-block decoding (scrya-com/dLLM-castlehill, d3LLM): settings, the life of blocks (when the next one is created, when
// it may have tokens forced, how far a pass looks), and one request under it.

#include "decode/request/policy.h"
#include "decode/request/request.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace dllm::decode {

struct PipelineSettings {
  double add = 0.5;          // share of the last block that is decided when the next one is created
  double activate = 0.5;     // of the block before, when a block becomes activated
  double activate_new = 0.5; // the same in the moment of creation
};

// Blocks of one request, in order. Counts are read from the canvas; only what is not
// on the canvas is kept.
class Pipeline {
public:
  // The blocks of request (origin, block_length); the first one is created and activated.
  Pipeline(const PipelineSettings& settings, const Request& request);

  // The begin of a round: activates, creates one block at most. Then something before active_end()
  // is open unless nothing is anywhere.
  void advance(const Request& request);

  int64_t count() const { return static_cast<int64_t>(totals_.size()); }
  int64_t created() const { return created_; }
  int64_t active_end() const { return active_end_; }
  int64_t begin(int64_t block) const { return origin_ + block * length_; }
  int64_t end(int64_t block) const { return std::min(begin(block) + length_, canvas_); }
  int64_t open(const Request& request, int64_t block) const {
    return request.open_count(begin(block), end(block));
  }
  bool activated(int64_t block) const { return activated_[static_cast<size_t>(block)] != 0; }
  // The first activated block with open positions; -1: there is none.
  int64_t leading(const Request& request) const;

private:
  double progress(const Request& request, int64_t block) const;
  void create(const Request& request);

  PipelineSettings settings_;
  int64_t origin_, length_, canvas_;
  std::vector<int64_t> totals_; // open positions of a block at the beginning
  std::vector<uint8_t> activated_;
  int64_t created_ = 1, active_end_ = 0;
};

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

// Prepares request; its span is the policy's.
std::unique_ptr<Session> make_multi_block_session(const MultiBlockSettings& settings,
                                                  Request& request);

} // namespace dllm::decode
