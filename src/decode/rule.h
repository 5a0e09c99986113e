#pragma once
// The part of a block-wise policy that chooses: which positions it wants predicted, which of them
// become final, which are masked again. Made anew for every request, so it may remember.

#include "decode/ask.h"
#include "decode/loop_plan.h"
#include "decode/slot.h"
#include "noise/schedule.h"

#include <functional>
#include <span>
#include <vector>

namespace dllm::decode {

// The moment of a request a rule decides in.
struct Moment {
  const Slot& slot;
  const noise::Schedule& schedule;
  int64_t steps;                 // of this block, at most
  std::span<const int64_t> open; // masked positions of the block, ascending
  int64_t begin, end;            // the block

  // Noise levels of the coming step, from 1 down: t now, s after it.
  double t() const;
  double s() const;
  float uniform(int64_t position, int word = 1) const {
    return position_uniform(slot, position, word);
  }
};

// A token in place of the one predicted.
struct Token {
  int32_t id;
  float probability;
};

struct Choice {
  std::vector<size_t> commit;  // indices into the predictions
  std::vector<Token> tokens;   // of commit, in its order; empty: those predicted
  std::vector<int64_t> remask; // decided positions that become masked again
  State state = State::final;  // of what is committed
};

class Rule {
public:
  virtual ~Rule() = default;
  // A block begins with `open` masked positions.
  virtual void start(const Moment&) {}
  // Positions whose prediction is needed, ascending; none: the step costs no pass. Default: the
  // open ones.
  virtual std::vector<int64_t> wanted(const Moment& moment) const;
  virtual Choice choose(const Moment& moment, std::span<const Prediction> predictions) = 0;
  // Noise level the model is told, if it is told. Default: t, but never below the last step's.
  virtual double time(const Moment& moment) const;
  // For its graph form: numbers of the coming steps, as many as the tables are long.
  virtual void fill_tables(const Moment&, LoopTables&) const {}
  // For the same: most steps a block of so many positions takes out of `steps` planned ones.
  // Default: each decides at least one position.
  virtual int64_t most_steps(int64_t block_length, int64_t /*steps*/) const { return block_length; }
  // Asked after every step.
  virtual bool block_ended(const Moment& moment) const { return moment.open.empty(); }
};

// Calls use(i, moment) for each of the coming `count` steps of the moment's block; only the
// moment's times tell them apart.
void for_coming_steps(const Moment& now, size_t count,
                      const std::function<void(size_t, const Moment&)>& use);

// Indices of the `count` largest scores; equal scores: the earlier one first.
std::vector<size_t> largest(const std::vector<double>& scores, int64_t count);

} // namespace dllm::decode
