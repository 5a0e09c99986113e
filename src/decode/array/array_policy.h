#pragma once
// A policy over arrays decodes numbers instead of tokens. Its request has an array f32(length,
// width) that begins as noise. Every step of a solver removes some of it. The text of a step is
// read from the array without noise that the model expects. Tokens are provisional until the last
// step makes them final.

#include "decode/array/solver.h"
#include "decode/pass/pass.h"
#include "decode/request/policy.h"
#include "decode/request/request.h"
#include "model/config.h"
#include "model/network/builder.h"
#include "noise/schedules/schedule.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dllm::decode {

// The rows of a program. All positions of a canvas are in the window.
struct ArrayRows {
  model::Builder& builder;
  const PassShape& shape; // rows and window; window_states() works in denoise() alone
  graph::Value ids;       // i32(rows, window): the token of given positions
  graph::Value given;     // u8(rows, window): 1 for given positions
  graph::Value positions; // i32(rows, window)
  // i32(rows, window): a position attends to [0, limit); 0 for places without a position.
  graph::Value limit;

  // i32(requests), for rules in blocks: the block that the steps make is [begin, end).
  graph::Value block_begin = {}, block_end = {};
  // The values of ArrayRule::prepare, by name.
  std::map<std::string, graph::Value> kept = {};

  int64_t rows() const { return ids.dim(0); }
  int64_t window() const { return ids.dim(1); }
};

// Values of a program that its steps read.
using ArrayKept = std::vector<std::pair<std::string, graph::Value>>;

// What a head reads to predict the tokens of a window.
struct ArrayText {
  graph::Value hidden; // f32(rows * window, hidden)
  model::Head head;    // its rows are the tokens of the base
};

// The level of an array on the host.
struct HostLevel {
  float time = 0, signal = 1, sigma = 0;
};

// How a model reads and writes arrays. It is read-only.
class ArrayRule {
public:
  virtual ~ArrayRule() = default;
  // Returns the numbers of one row of an array.
  virtual int64_t width(const model::ModelConfig& config) const = 0;
  // Returns the rows of an array over `window` positions. A longer window has as many or more.
  virtual int64_t length(const model::ModelConfig& /*config*/, int64_t window) const {
    return window;
  }
  // Returns the width of Denoised::states; 0: there are none, and read() gets the clean array.
  virtual int64_t states_width(const model::ModelConfig&) const { return 0; }
  // Returns whether denoise() reads NoisyArray::previous.
  virtual bool self_conditions() const { return false; }
  // Returns the positions of a block, where the array is made in blocks, one after the other. The
  // array has a row for each position then, and a step changes the rows of one block. 0: all rows
  // are made at once.
  virtual int64_t block_length() const { return 0; }
  // Returns the parts of the model that the functions below read in addition to the base and its
  // adapters, such as "denoiser". Builder::part() of ArrayRows::builder gives such a network.
  virtual std::vector<std::string> other_parts() const { return {}; }
  // Returns the level at time t. Default: signal^2 = alpha(t) of the schedule, and sigma^2 is the
  // rest of 1.
  virtual HostLevel level(const noise::Schedule& schedule, double t) const;
  // Returns what stays the same in all steps of a run, such as K and V of the blocks that are done.
  // `array` is the array before the steps, f32(requests, length, width).
  virtual ArrayKept prepare(const ArrayRows& /*rows*/, graph::Value /*array*/) const { return {}; }
  // Removes the noise. Under guidance the rows are those of the requests, and then the same rows
  // without given positions.
  virtual Denoised denoise(const ArrayRows& rows, const NoisyArray& array) const = 0;
  // Reads text from Denoised::states or ::clean, after the last step or of many steps at once. So
  // `rows` may be more than those of denoise(). Default: `read` are hidden states of the base.
  virtual ArrayText read(const ArrayRows& rows, graph::Value read) const;
};

// What all requests of a policy over arrays share.
struct ArrayPlan {
  std::vector<HostLevel> levels; // before every step, and after the last one
  int64_t evaluations = 1;       // of the model in a step
  bool in_blocks = false;        // ArrayRule::block_length is not 0
  // Classifier-free guidance moves from the array u without given tokens to the array c with them:
  // u + (guidance + 1) (c - u). 0: off.
  float guidance = 0;
  std::vector<int32_t> guidance_keep; // given tokens that u has, too
  int32_t mask_id = 0;
};

// Returns option schedule of a policy over arrays, whose default is the schedule of the training.
OptionSpec trained_schedule_option();

class ArrayPolicy : public Policy {
public:
  ArrayPolicy(const PolicySetup& setup, std::shared_ptr<const ArrayRule> rule);

  std::unique_ptr<Session> begin(Request& request) const override;
  PredictionNeeds needs() const override { return {.mask = false}; }
  const ArrayPolicy* arrays() const final { return this; }

  const ArrayRule& rule() const { return *rule_; }
  const Solver& solver() const { return *solver_; } // of option solver
  // Returns whether a step reads the clean array of the step before.
  bool keeps_previous() const { return rule_->self_conditions() || solver_->uses_previous(); }
  // Returns the levels of all steps, the noisiest first, and then the level 0: steps + 1 of them.
  // Fails with invalid_argument if a level before the last has no noise that a solver can remove.
  std::vector<HostLevel> levels(int64_t steps) const;

private:
  std::shared_ptr<const ArrayRule> rule_;
  std::unique_ptr<const Solver> solver_;
};

// A request of a policy over arrays. Every step predicts all positions that were not given, or none
// if its text is unused.
class ArraySession final : public Session {
public:
  explicit ArraySession(ArrayPlan plan)
      : plan_(std::make_shared<const ArrayPlan>(std::move(plan))) {}

  std::unique_ptr<Session> clone() const override { return std::make_unique<ArraySession>(*this); }
  PassRequest next_pass(const Request& request, const CacheView& cache) const override;
  Outcome apply(Request& request, const PassRequest& pass,
                std::span<const Prediction> predictions) override;
  int64_t nfe(const Request& request) const override { return request.steps * plan_->evaluations; }

  // Returns the steps that are left, for rules in blocks those of the block.
  int64_t steps_left(const Request& request) const {
    return std::ssize(plan_->levels) - 1 - request.step_in_block;
  }
  // Returns the level before the coming step number `step`; 0 is the next one, and -1 the one
  // before. The first step of all is also the one before it.
  const HostLevel& level(const Request& request, int64_t step) const {
    const int64_t number = std::max<int64_t>(0, request.step_in_block + step);
    return plan_->levels[static_cast<size_t>(number)];
  }
  bool in_blocks() const { return plan_->in_blocks; }
  bool is_guided() const { return plan_->guidance != 0; }
  // Returns whether a position is given. without: in the array u of guidance.
  bool is_given(const Request& request, int64_t position, bool without) const;

private:
  std::shared_ptr<const ArrayPlan> plan_; // a step copies the session
};

} // namespace dllm::decode
