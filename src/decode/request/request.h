#pragma once
// One request: a canvas with given and open positions, how far its decoding is, to where its positions attend, and where
// its random numbers come from. The canvas is the truth; whatever an engine keeps of it is a cache.

#include "base/options.h"
#include "base/random.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dllm::decode {

// To where a position attends. Every kind of attention a decoder needs is one rule: positions in blocks of a grid, each
// attending to its own block and all before it.
struct AttentionSpan {
  int64_t block = 0;         // 0: bidirectional; 1: causal
  int64_t origin = 0;        // a block begins here; the grid goes on to both sides
  bool whole_prompt = false; // positions before origin are one block

  friend bool operator==(const AttentionSpan&, const AttentionSpan&) = default;

  bool is_exact() const { return block > 0; } // K and V of a decided prefix never change

  // `position` attends to [0, limit); may be beyond the canvas.
  int64_t limit(int64_t position) const {
    if (block == 0) return INT32_MAX;
    const int64_t offset = position - origin;
    if (whole_prompt && offset < 0) return origin;
    const int64_t number = offset >= 0 ? offset / block : -((-offset + block - 1) / block);
    return origin + (number + 1) * block;
  }
  // Start of the block that holds `position`; no earlier position attends past it.
  int64_t floor(int64_t position) const {
    if (block == 0) return 0;
    if (whole_prompt && position < origin) return 0;
    return std::max<int64_t>(0, limit(position) - block);
  }
};

// Numbers are those of include/dllm/base.h.
enum class State : uint8_t { masked = 0, provisional = 1, final = 2, fixed = 3 };
// failed: a step of this request failed; the canvas is that of the last complete step.
enum class Finish : int { running = 0, decided = 1, stopped = 2, failed = 3 };

const Schema& request_schema(); // "slot"

class Constraint;
class RandomSource;

struct RequestSettings {
  uint64_t seed = 0;
  float temperature = 0; // 0: the likeliest token
  int32_t top_k = 0;     // 0: off
  float top_p = 1;       // 1: off
  std::vector<int32_t> stop;
  std::shared_ptr<const Constraint> constraint; // null: every token may be written
};

struct Request {
  int64_t number = 0;
  RequestSettings settings;
  std::vector<int32_t> ids; // open positions hold the mask token
  std::vector<State> states;
  std::vector<float> confidence; // probability of the token when it was last looked at; 1 for
                                 // given, 0 for open ones
  int64_t prompt = 0;            // given positions at the front; 0 in a canvas with holes
  AttentionSpan span;
  const RandomSource* random_source = nullptr; // null: by key from the seed

  // Where the session is; it moves them.
  int64_t origin = 0; // where block 0 begins
  int64_t block_length = 0;
  int64_t block = 0; // the one being decided
  int64_t step_in_block = 0;

  int64_t steps = 0;       // steps taken
  int64_t evaluations = 0; // of them with a forward pass
  int64_t prefills = 0;    // passes of these kinds
  int64_t commits = 0;
  int64_t launches = 0;    // programs it took part in
  int64_t round_trips = 0; // of them, those whose results the host waited for
  int64_t decided = 0;     // positions, without those opened again
  Finish finish = Finish::running;

  int64_t length() const { return static_cast<int64_t>(ids.size()); }
  int64_t block_count() const { return (length() - origin + block_length - 1) / block_length; }
  int64_t block_begin() const { return origin + block * block_length; }
  int64_t block_end() const { return std::min(block_begin() + block_length, length()); }
  bool is_open(int64_t position) const {
    return states[static_cast<size_t>(position)] == State::masked;
  }
  int64_t open_count(int64_t begin, int64_t end) const;
  std::vector<int64_t> open_positions(int64_t begin, int64_t end) const;
  bool active() const { return finish == Finish::running; }

  void decide(int64_t position, int32_t token, float probability, State state = State::final);
  // Takes a decision back: the position holds the mask token again.
  void reopen(int64_t position, int32_t mask_id);
};

// A number in [0, 1) for a position in the coming step, independent of every other request: word 0
// draws the token, word 1 is the policy's, words from 2 on are its further ones.
float position_uniform(const Request& request, int64_t position, int word);
// The same by key alone: of a request's step `step`, counted from 0.
float seeded_uniform(uint64_t seed, int64_t step, int64_t position, int word);

// Where the random numbers of a request come from. By default from its seed, by key; tests that replay recorded draws of a
// reference put their own in place.
class RandomSource {
public:
  virtual ~RandomSource() = default;
  // A number in [0, 1) for a position in the coming step. word 0 draws the token, word 1 is the
  // policy's, words from 2 on are its further ones.
  virtual float uniform(const Request& request, int64_t position, int word) const = 0;
  // Adds to logits / temperature, one number per token; the token with the largest sum is drawn.
  virtual bool has_noise() const { return false; }
  virtual void noise(const Request&, int64_t /*position*/, std::span<float> /*per_token*/) const {}
};

} // namespace dllm::decode
