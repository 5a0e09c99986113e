#pragma once
// Multi-block decoding (scrya-com/dLLM-castlehill, d3LLM) decides several blocks of a request at
// the same time. This header has its settings, the pipeline of blocks, and its session.

#include "decode/request/policy.h"
#include "decode/request/request.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace dllm::decode {

// The progress of a block is the share of its open positions that is decided.
struct PipelineSettings {
  double add = 0.5;          // progress of the last block at which the next one is created
  double activate = 0.5;     // progress of the block before at which a block becomes activated
  double activate_new = 0.5; // the same in the step that creates the block
};

// The blocks of one request, in order. Open positions are counted on the canvas. The pipeline
// stores only what the canvas does not show.
class Pipeline {
public:
  // Cuts the canvas into blocks by request.origin and block_length. Creates and activates the
  // first.
  Pipeline(const PipelineSettings& settings, const Request& request);

  // Begins a round. Activates blocks and creates the next block if it is due, and passes over
  // blocks without open positions. Afterwards a position before active_end() is open, unless the
  // canvas has no open position.
  void advance(const Request& request);

  int64_t count() const { return static_cast<int64_t>(totals_.size()); }
  int64_t created() const { return created_; }
  // Returns the end of the last created block that is activated or has open positions. Only
  // positions before it are predicted.
  int64_t active_end() const { return active_end_; }
  int64_t begin(int64_t block) const { return origin_ + block * length_; }
  int64_t end(int64_t block) const { return std::min(begin(block) + length_, canvas_); }
  int64_t open(const Request& request, int64_t block) const {
    return request.open_count(begin(block), end(block));
  }
  bool activated(int64_t block) const { return activated_[static_cast<size_t>(block)] != 0; }
  // Returns the first activated block with open positions; -1: there is none.
  int64_t leading(const Request& request) const;

private:
  double progress(const Request& request, int64_t block) const;
  void create(const Request& request);

  PipelineSettings settings_;
  int64_t origin_, length_, canvas_;
  std::vector<int64_t> totals_; // open positions of each block at the beginning
  std::vector<uint8_t> activated_;
  int64_t created_ = 1, active_end_ = 0;
};

enum class MultiBlockKeep : uint8_t { none, exact, delayed };

// The implementation whose defects are reproduced (option compat).
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

// Returns the session and prepares `request`. The caller has set the span, the origin and the block
// length of `request`.
std::unique_ptr<Session> make_multi_block_session(const MultiBlockSettings& settings,
                                                  Request& request);

} // namespace dllm::decode
