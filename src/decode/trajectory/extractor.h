#pragma once
// Extracts trajectories (text/data/trajectory.h) of a teacher: which tokens of a row it is certain
// of first.

#include "base/options.h"
#include "base/task.h"
#include "decode/cache/decode_state.h"
#include "decode/pass/pass_program.h"
#include "decode/trajectory/reveal_rule.h"
#include "model/model.h"
#include "text/data/trajectory.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace dllm::decode {

// A row whose tokens are revealed.
struct TrajectoryRow {
  int64_t idx = 0;
  std::vector<int32_t> ids;
  std::vector<uint8_t> given; // 1: the token is never hidden; one per id
};

// The options of kind "trajectories": method, lines, steps, threshold, block_length, fill, context,
// least, length, attention, shift, suppress_mask, batch, limit, fresh.
const Schema& trajectory_schema();

// One call at a time. It keeps the model alive.
class TrajectoryExtractor {
public:
  // model: null for a method that does not read one. mask_id: token of hidden positions without a
  // model. Fails with failed_precondition for a model that was trained to replace, insert or write
  // tokens of a canvas. Fails with invalid_argument for options that the method does not use. Logs
  // a warning for a next-token model.
  TrajectoryExtractor(std::shared_ptr<model::Model> model, const Options& options, int32_t mask_id);

  int32_t mask_id() const { return mask_; }
  // Returns what the trajectories depend on in addition to the rows and the options: {"weights",
  // "arithmetic", "attention", "shift"}; null without a model.
  Json teacher(const Task* task) const;
  // Returns the trajectory of each row. The rows share passes, and each trajectory depends on its
  // row alone. Fails with failed_precondition for a row longer than the model allows, naming its
  // idx.
  std::vector<text::Trajectory> run(std::span<const TrajectoryRow> rows, const Task* task);

private:
  struct Open; // a row with hidden tokens
  void predict(std::span<Open*> rows, const Weights& weights, const Task* task);
  void reveal(Open& row) const;
  void show(Open& row, size_t wanted) const;
  Request request_of(const TrajectoryRow& row) const;

  std::shared_ptr<model::Model> model_;
  std::unique_ptr<RevealRule> rule_;
  bool own_tokens_; // hidden tokens are shown as the model predicts them
  int32_t mask_;
  AttentionSpan span_;
  PassSettings settings_;
  std::unique_ptr<PassProgram> program_;
  std::unique_ptr<DecodeState> state_;
  int64_t capacity_ = 0; // most positions that a pass predicted
};

} // namespace dllm::decode
