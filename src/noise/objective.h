#pragma once
// What is corrupted and how the loss counts it. `prepare` makes named arrays on the host; `loss`
// builds a graph that reads them. Nearly all objectives share one loss graph, token_ce, and differ
// only in prepare.

#include "base/options.h"
#include "base/random.h"
#include "base/task.h"
#include "graph/graph.h"
#include "model/builder.h"
#include "noise/given_rows.h"
#include "noise/objective_facts.h"
#include "noise/schedule.h"
#include "tensor/batch.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dllm::noise {

struct PrepareContext {
  int64_t vocab = 0;    // ids must be below; 0: not checked
  int64_t mask_id = -1; // -1: none; objectives that corrupt fail with failed_precondition
  int64_t bos_id = -1;  // used by compat = dllm-jax | dllm with shift = 1 only
  int shift =
      0; // the resolved shift: an objective that always has a first position untrained needs it
  int64_t block_length = 0; // 0: none; objectives in blocks fail with failed_precondition
  int64_t time_steps =
      0; // of a time-conditioned model: timesteps are t times this; 0: no such model
  bool held_out =
      false; // a held-out loss: what changes with the step is as at the end of a training
  std::optional<Key> batch_key; // compat = dllm-jax | nano: the key of this batch, in place of the
                                // one of (seed, step)
};
class Objective;
struct TokenCeSettings; // token_ce.h
// What the model says, where the objective's options do not.
PrepareContext prepare_context(const Objective& objective, const model::ModelConfig& config);

// A loss as the trainer wants it: sum / normalizer is the loss, each may be summed over
// micro-batches and ranks.
struct Loss {
  graph::Value sum;        // f32 scalar, unnormalized
  graph::Value normalizer; // f32 scalar
  struct Part {
    std::string name;
    graph::Value sum, count; // f32 scalars; the part is sum / count
  };
  std::vector<Part> parts;
};

// What a loss reads, as values of its graph. What its feed does not hold is undefined: a loss over vectors has no rows
// of a head.
struct LossInputs {
  model::ForwardInputs tokens;             // ids, positions, mask, ...
  graph::Value head_rows, head_targets;    // i32(capacity)
  graph::Value head_weights;               // f32(capacity)
  graph::Value head_count;                 // i32(): entries of these in use
  graph::Value normalizer;                 // f32(batch)
  std::map<std::string, graph::Value> all; // by name: also what an objective adds in feed()
};

class Objective {
public:
  virtual ~Objective() = default;
  virtual const std::string& name() const = 0;
  virtual bool needs_mask_id() const = 0;
  // True when noise is keyed by the number of prepared batches, not of updates and rows (compat
  // quirks).
  virtual bool keyed_by_batch() const { return false; }
  // True when a draw depends on how many rows the whole update has (array rows, its second number).
  virtual bool spreads_over_rows() const { return false; }

  // Adds to the arrays of `batch` (ids i32(batch, seq); optional keep, prompt_length, labels,
  // segments, rows, and those of raw_arrays()):
  //   ids i32 with masks, targets i32 (negative: none), weights f32, all (batch, seq); normalizer
  //   f32(batch); t f32(batch).
  // Depends on (seed, step, global row) alone, so any cut of a batch draws the same noise.
  // A batch that is prepared already is returned as it is. Fails with invalid_argument, naming
  // the array, for a batch that holds some of the arrays of the loss but not all, and for a
  // reserved array (tensor/batch.h) that the objective does not read. Thread-safe.
  Batch prepare(const Batch& batch, uint64_t seed, int64_t step,
                const PrepareContext& context) const;
  // True when the arrays of the loss are there already (scripts, tests). Fails as prepare does.
  bool is_prepared(const Batch& batch) const;

  // The arrays the graph of loss() reads, from a prepared batch, which is checked here. Programs depend on their names,
  // types and shapes only. An objective may add arrays to those of the base class.
  virtual Batch feed(const Batch& prepared, const model::ModelConfig& config) const;
  // arrays: one value per array of feed(), by name.
  Loss loss(model::Builder& builder, const std::map<std::string, graph::Value>& arrays) const;

  // Parts of the model that the loss reads in addition to the base and its adapters: "teacher" of an objective that
  // compares with one. Builder::part() gives the loss such a network, Builder::without_adapters() the base alone.
  virtual std::vector<std::string> other_parts() const { return {}; }

  // What the loss uses for a model: option > the objective's need > the model's own.
  virtual model::AttentionKind attention(const model::ModelConfig& config) const;
  virtual int shift(const model::ModelConfig& config) const;
  int64_t block_length(const model::ModelConfig& config) const; // option > the model's own

  // True when the loss, in the form of these options, bounds -log p of a text in nats per token.
  virtual bool bounds_likelihood() const { return false; }

  virtual Json describe() const; // name, effective options, schedule, active quirks
  const Options& options() const { return options_; }
  const ScheduleRef& schedule() const { return schedule_; }

protected:
  // The work of prepare(). The batch holds no array of the loss, and prompt_length is part of keep.
  virtual Batch prepare_rows(const Batch& batch, uint64_t seed, int64_t step,
                             const PrepareContext& context) const = 0;
  // Arrays of a prepared batch that the loss needs in addition to targets and weights.
  virtual std::vector<std::string> prepared_arrays() const { return {}; }
  // Arrays of raw rows that the objective reads in addition to those that every objective reads.
  virtual std::vector<std::string> raw_arrays() const {
    return {"positions", "limit", "mask", "keys"};
  }

  // The graph: cross entropy of the targets (token_ce) unless an objective has another one.
  virtual Loss build_loss(model::Builder& builder, const LossInputs& inputs) const;

  // Which hidden states predict the targets, for feed() of objectives with arrays of their own. Array "block_length", i32(),
  // of the prepared rows has priority over the objective's.
  TokenCeSettings token_ce_settings(const Batch& prepared, const model::ModelConfig& config) const;

  Objective(ScheduleRef schedule, Options options)
      : schedule_(std::move(schedule)), options_(std::move(options)) {}

  ScheduleRef schedule_;
  Options options_;

private:
  GivenRules given_rules() const;
};
using ObjectiveRef = std::shared_ptr<const Objective>;

std::vector<std::string> objective_names(); // "ar", "bd3lm", ...
// "objective:<name>"; name "" gives the keys all share ("objective").
const Schema& objective_schema(const std::string& name);
const ObjectiveFacts& objective_facts(const std::string& name);
// schedule null: the objective's default ("linear"; nano: "nano_cosine"). Fails with not_found and
// the nearest name.
ObjectiveRef make_objective(const std::string& name, ScheduleRef schedule, const Options& options);
ObjectiveRef make_objective(const std::string& name, ScheduleRef schedule = nullptr);

} // namespace dllm::noise
