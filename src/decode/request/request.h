#pragma once
// A request is one canvas with given and open positions, its settings, and the progress of its
// decoding. The canvas on the host is the truth. Everything that an engine keeps of a request is a
// cache.

#include "base/options.h"
#include "base/random.h"
#include "graph/filters/filter.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dllm::decode {

// The positions that a position attends to. Positions form the blocks of a grid. Each position
// attends to its own block and to all blocks before it. This covers every kind of attention that a
// decoder uses.
struct AttentionSpan {
  int64_t block = 0;         // length of a block; 0: bidirectional; 1: causal
  int64_t origin = 0;        // first position of a block; the grid extends to both sides
  bool whole_prompt = false; // true: the positions before origin form one block

  friend bool operator==(const AttentionSpan&, const AttentionSpan&) = default;

  // Whether K and V of a decided prefix never change.
  bool is_exact() const { return block > 0; }

  // Returns the end of the span: `position` attends to [0, limit). The limit may exceed the canvas.
  int64_t limit(int64_t position) const {
    if (block == 0) return INT32_MAX;
    const int64_t offset = position - origin;
    if (whole_prompt && offset < 0) return origin;
    const int64_t number = offset >= 0 ? offset / block : -((-offset + block - 1) / block);
    return origin + (number + 1) * block;
  }
  // Returns the start of the block that contains `position`. No earlier position attends past it.
  int64_t floor(int64_t position) const {
    if (block == 0) return 0;
    if (whole_prompt && position < origin) return 0;
    return std::max<int64_t>(0, limit(position) - block);
  }
};

// State of a position. DLLM_MASKED ... in include/dllm/base.h have the same numbers.
enum class State : uint8_t { masked = 0, provisional = 1, final = 2, fixed = 3 };
// Whether and why a request ended. failed: a step of the request failed, and the canvas is as after
// the last complete step.
enum class Finish : int { running = 0, decided = 1, stopped = 2, failed = 3 };

const Schema& request_schema(); // options of kind "slot"

// Inserts key(option) of every filter of draws after the key temperature, and puts these keys and
// temperature into the group "draw".
void add_filters(std::vector<OptionSpec>& keys,
                 const std::function<OptionSpec(const OptionSpec& option)>& key);

class Constraint;
class RandomSource;

struct RequestSettings {
  uint64_t seed = 0;
  float temperature = 0; // 0: the draw is the likeliest token
  graph::FilterSettings filters = graph::filters_off();
  std::vector<int32_t> stop;
  std::shared_ptr<const Constraint> constraint; // null: every token may be written
};

struct Request {
  int64_t number = 0;
  RequestSettings settings;
  std::vector<int32_t> ids; // open positions hold the mask token
  std::vector<State> states;
  // Probability of the token of each position when it was last predicted. 1 for given positions, 0
  // for open ones.
  std::vector<float> confidence;
  // f32(length, width) of a policy over arrays (array/array_policy.h); empty: the ids are all.
  std::vector<float> array;
  // The last clean array of a policy that keeps it; empty: no step was taken.
  std::vector<float> previous;
  int64_t prompt = 0; // number of given positions at the front; 0 in a canvas with holes
  AttentionSpan span;
  const RandomSource* random_source = nullptr; // null: random numbers are derived from the seed

  // Progress of the session. Only the session changes these.
  int64_t origin = 0; // first position of block 0
  int64_t block_length = 0;
  int64_t block = 0; // number of the block that is being decided
  int64_t step_in_block = 0;

  int64_t steps = 0;       // steps taken
  int64_t evaluations = 0; // steps with a forward pass
  int64_t prefills = 0;    // passes of PassKind::prefill
  int64_t commits = 0;     // passes of PassKind::commit
  int64_t launches = 0;    // runs of programs that the request took part in
  int64_t round_trips = 0; // launches whose results the host waited for
  int64_t decided = 0;     // decided positions, without positions that were opened again
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
  // Makes a decided position open again: it holds the mask token.
  void reopen(int64_t position, int32_t mask_id);
};

// Returns a random number in [0, 1) for a position in the coming step. It does not depend on other
// requests. Word 0 draws the token. The policy uses word 1 and further words from 2 on.
float position_uniform(const Request& request, int64_t position, int word);
// Returns the same from the seed alone, for the step number `step` of a request, counted from 0.
float seeded_uniform(uint64_t seed, int64_t step, int64_t position, int word);

// Sets standard normal numbers of a position, from the seed alone. Step 0 has the numbers of the
// first array of a policy over arrays, and step n the noise of its step n - 1.
void position_normals(uint64_t seed, int64_t step, int64_t position, std::span<float> numbers);

// The source of the random numbers of a request, in place of numbers derived from its seed. Tests
// that replay the recorded draws of a reference use one.
class RandomSource {
public:
  virtual ~RandomSource() = default;
  // Returns a number in [0, 1) for a position in the coming step. Word 0 draws the token. The
  // policy uses word 1 and further words from 2 on.
  virtual float uniform(const Request& request, int64_t position, int word) const = 0;
  // Whether `noise` is used. `noise` sets one number per token, which is added to
  // logits / temperature. The token with the largest sum is drawn.
  virtual bool has_noise() const { return false; }
  virtual void noise(const Request&, int64_t /*position*/, std::span<float> /*per_token*/) const {}
};

} // namespace dllm::decode
