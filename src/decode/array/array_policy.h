#pragma once
// A policy over arrays decodes numbers instead of tokens. Its request has an array f32(length,
// width) that begins as noise. Every step of a solver removes some of it, and gives a token at
// every open position: the text so far. Tokens are provisional until the last step makes them
// final.

#include "decode/array/solver.h"
#include "decode/pass/pass.h"
#include "decode/request/policy.h"
#include "decode/request/request.h"
#include "model/config.h"
#include "model/network/builder.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dllm::decode {

// The rows of a program, before the first step.
struct ArrayRows {
  model::Builder& builder;
  const PassShape& shape; // rows and window; all positions of a canvas are in the window
  graph::Value ids;       // i32(rows, window): the token of given positions
  graph::Value given;     // u8(rows, window): 1 for given positions
};

// How a model reads and writes arrays. It is read-only.
class ArrayRule {
public:
  virtual ~ArrayRule() = default;
  // Returns the numbers of one position.
  virtual int64_t width(const model::ModelConfig& config) const = 0;
  virtual const Solver& solver() const = 0;
  // Returns the parts of the model that denoise() reads in addition to the base and its adapters,
  // such as "denoiser". Builder::part() of ArrayRows::builder gives such a network, which
  // window_states() can run.
  virtual std::vector<std::string> other_parts() const { return {}; }
  // Runs the model on `array` f32(rows, window, width) at time f32(rows, 1, 1).
  virtual Denoised denoise(const ArrayRows& rows, graph::Value array, graph::Value time) const = 0;
};

// The level of an array on the host.
struct HostLevel {
  float time = 0, signal = 1, sigma = 0;
};

class ArrayPolicy : public Policy {
public:
  ArrayPolicy(const PolicySetup& setup, std::shared_ptr<const ArrayRule> rule)
      : Policy(setup), rule_(std::move(rule)) {}

  std::unique_ptr<Session> begin(Request& request) const final;
  PredictionNeeds needs() const override { return {.mask = false}; }
  const ArrayRule* array_rule() const final { return rule_.get(); }

  // Returns the level at time t. Default: signal^2 = alpha(t) of the schedule, and sigma^2 is the
  // rest of 1.
  virtual HostLevel level(double t) const;
  // Returns the levels of all steps, the noisiest first, and then the level 0: steps + 1 of them.
  // Fails with invalid_argument if a level before the last has no noise that a solver can remove.
  std::vector<HostLevel> levels(int64_t steps) const;

private:
  std::shared_ptr<const ArrayRule> rule_;
};

// A request of a policy over arrays. Every step predicts all positions that were not given.
class ArraySession final : public Session {
public:
  ArraySession(std::vector<HostLevel> levels, int64_t evaluations)
      : levels_(std::make_shared<const std::vector<HostLevel>>(std::move(levels))),
        evaluations_(evaluations) {}

  std::unique_ptr<Session> clone() const override { return std::make_unique<ArraySession>(*this); }
  PassRequest next_pass(const Request& request, const CacheView& cache) const override;
  Outcome apply(Request& request, const PassRequest& pass,
                std::span<const Prediction> predictions) override;
  int64_t nfe(const Request& request) const override { return request.steps * evaluations_; }

  // Returns the steps that are left.
  int64_t steps_left(const Request& request) const {
    return std::ssize(*levels_) - 1 - request.step_in_block;
  }
  // Returns the level before the coming step number `step`; 0 is the next one.
  const HostLevel& level(const Request& request, int64_t step) const {
    return (*levels_)[static_cast<size_t>(request.step_in_block + step)];
  }

private:
  std::shared_ptr<const std::vector<HostLevel>> levels_; // a step copies the session
  int64_t evaluations_;
};

} // namespace dllm::decode
