#pragma once
// Which open positions of a block are decided in a step. A policy never sees logits: it asks for positions before the
// forward pass and chooses among their statistics after it. Policies hold no state of a request.

#include "base/options.h"
#include "base/random.h"
#include "decode/slot.h"
#include "noise/schedule.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dllm::decode {

// What the model says about one position (graph::token_statistics).
struct Prediction {
  int64_t position = 0;
  int32_t token = 0;      // the draw: at temperature 0 the likeliest token
  float probability = 0;  // of that token, at temperature 1 without filters
  float entropy = 0;      // nats
};

// The moment of a slot a policy decides for.
struct Moment {
  const Slot& slot;
  const noise::Schedule& schedule;
  std::span<const int64_t> open;  // open positions of the block, ascending
  // Uniform number of a position in this step, independent of every other request.
  float uniform(int64_t position) const;
};

class Policy {
 public:
  virtual ~Policy() = default;
  virtual const std::string& name() const = 0;
  // Positions whose prediction is needed; none: the step decides nothing and costs no forward pass.
  virtual std::vector<int64_t> wanted(const Moment& moment) const = 0;
  // Which of the predictions become final: indices into `predictions`.
  virtual std::vector<size_t> choose(const Moment& moment, std::span<const Prediction> predictions) const = 0;
  // Positions decided in each step of a block with `open` open ones: planned when the block begins. Empty: the policy
  // decides by chance and the block ends after steps_per_block.
  virtual std::vector<int64_t> plan(const Slot& slot, const noise::Schedule& schedule, int64_t open) const = 0;
};

// Key of a position's random numbers: word 0 draws the token, word 1 is the policy's.
Key position_key(const Slot& slot, int64_t position);

std::vector<std::string> policy_names();
// "decoder" for "", "decoder:<name>" else. Fails with not_found and the nearest name.
const Schema& decoder_schema(const std::string& policy);
std::unique_ptr<Policy> make_policy(const std::string& name);

// Positions to decide in each of `steps` steps so that the expected masked share follows the schedule: at step j with
// t = (steps - j) / steps and s = t - 1 / steps, round_half_even(left * (1 - (1 - alpha(s)) / (1 - alpha(t)))); steps that would
// decide nothing are left out; the sum is `open` (spec-dllm-jax 4.0).
std::vector<int64_t> transfer_counts(const noise::Schedule& schedule, int64_t open, int64_t steps);

}  // namespace dllm::decode
