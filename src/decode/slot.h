#pragma once
// One request: a canvas with given and open positions, and how far its decoding is. The canvas is the truth; whatever an
// engine keeps beside it is a cache of it.

#include "base/options.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace dllm::decode {

// Numbers are those of include/dllm/base.h.
enum class State : uint8_t { masked = 0, provisional = 1, final = 2, fixed = 3 };
enum class Finish : int { running = 0, decided = 1, stopped = 2 };

const Schema& slot_schema();  // "slot": seed gen_length temperature top_k top_p stop

struct SlotSettings {
  uint64_t seed = 0;
  float temperature = 0;  // 0: the likeliest token
  int32_t top_k = 0;      // 0: off
  float top_p = 1;        // 1: off
  std::vector<int32_t> stop;
};

struct Slot {
  int64_t number = 0;
  SlotSettings settings;
  std::vector<int32_t> ids;         // open positions hold the mask token
  std::vector<State> states;
  std::vector<float> confidence;    // probability of the token when it was decided; 1 for given, 0 for open ones
  int64_t origin = 0;               // where block 0 begins
  int64_t block_length = 0;
  int64_t steps_per_block = 1;

  int64_t block = 0;                // the one being decided
  int64_t step_in_block = 0;
  std::vector<int64_t> transfer;    // positions to decide in each step of this block; empty: not planned yet
  int64_t steps = 0;                // steps taken
  int64_t evaluations = 0;          // of them with a forward pass (NFE)
  int64_t commits = 0;              // positions decided
  Finish finish = Finish::running;
  std::string trace;                // JSON lines

  int64_t length() const { return static_cast<int64_t>(ids.size()); }
  int64_t block_count() const { return (length() - origin + block_length - 1) / block_length; }
  int64_t block_begin() const { return origin + block * block_length; }
  int64_t block_end() const { return std::min(block_begin() + block_length, length()); }
  int64_t open_count(int64_t begin, int64_t end) const;
  bool active() const { return finish == Finish::running; }
};

}  // namespace dllm::decode
