#pragma once
// An objective says how a batch is corrupted and how the loss counts it. `prepare` makes named
// arrays on the host, and `loss` builds a graph that reads them. Nearly all objectives share one
// loss graph, token_ce, and differ only in prepare.

#include "base/options.h"
#include "base/random.h"
#include "base/task.h"
#include "graph/graph.h"
#include "model/network/builder.h"
#include "noise/fillers/filler_use.h"
#include "noise/objective_facts.h"
#include "noise/objective_state.h"
#include "noise/rows/given_rows.h"
#include "noise/schedules/schedule.h"
#include "noise/terms/loss_terms.h"
#include "tensor/batch.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dllm::noise {

struct PrepareContext {
  int64_t vocab = 0;    // ids are less than it; 0: not checked
  int64_t mask_id = -1; // -1: none; objectives that corrupt fail with failed_precondition
  // Used by compat = dllm-jax | dllm with shift = 1 only.
  int64_t bos_id = -1;
  // 1: position i predicts token i + 1.
  int shift = 0;
  int64_t block_length = 0; // 0: none; objectives in blocks fail with failed_precondition
  // For a time-conditioned model: timesteps are t times this; 0: other models.
  int64_t time_steps = 0;
  int64_t layers = 0;              // of the model
  model::FillerConfig filler = {}; // of the model
  // true: values that are scheduled over training take their final value.
  bool held_out = false;
  // compat = dllm-jax | nano: the key of this batch, in place of the key of (seed, step).
  std::optional<Key> batch_key;
};
class Objective;
struct TokenCeSettings; // token_ce.h
// Returns the context of a model, where options of the objective have priority.
PrepareContext prepare_context(const Objective& objective, const model::ModelConfig& config);

// A loss for the trainer: sum / normalizer. Both may be summed over micro-batches and ranks.
struct Loss {
  graph::Value sum;        // f32 scalar, unnormalized
  graph::Value normalizer; // f32 scalar
  struct Part {
    std::string name;
    graph::Value sum, count; // f32 scalars; the part is sum / count
  };
  std::vector<Part> parts;
  // Sums f32(n) over the rows of the batch, for Objective::next_state. No gradient flows into them.
  struct Sum {
    std::string name;
    graph::Value values;
  };
  std::vector<Sum> observed;
};

// The inputs of a loss, as values of its graph. An array that the feed does not hold is undefined:
// a loss over vectors has no head rows.
struct LossInputs {
  model::ForwardInputs tokens;          // ids, positions, mask, ...
  graph::Value head_rows, head_targets; // i32(capacity)
  graph::Value head_weights;            // f32(capacity)
  graph::Value head_count;              // i32(): number of head entries in use
  graph::Value normalizer;              // f32(batch)
  // All inputs by name, also the arrays that an objective adds in feed().
  std::map<std::string, graph::Value> all;
};

class Objective {
public:
  virtual ~Objective() = default;
  virtual const std::string& name() const = 0;
  virtual bool needs_mask_id() const = 0;
  // Returns true when noise is keyed by the number of prepared batches in place of updates and rows
  // (for compat).
  virtual bool keyed_by_batch() const { return false; }
  // Returns true when a draw depends on the number of rows of the whole update (second number of
  // array rows).
  virtual bool spreads_over_rows() const { return false; }

  // Adds the arrays of the loss to `batch`: ids i32 with masks, targets i32 (negative: none) and
  // weights f32 are (batch, seq), normalizer and t are f32(batch). The batch has ids i32(batch,
  // seq), optionally keep, prompt_length, labels, segments, rows, and the arrays of raw_arrays().
  // The noise depends on (seed, step, global row) alone, so any cut of a batch draws the same
  // noise. A prepared batch is returned unchanged.
  // Fails with invalid_argument, naming the array, for a batch that holds only some arrays of the
  // loss. Fails in the same way for a reserved array (tensor/batch.h) that the objective does not
  // read. Thread-safe.
  Batch prepare(const Batch& batch, uint64_t seed, int64_t step,
                const PrepareContext& context) const;
  // Returns true when the batch already has the arrays of the loss (scripts, tests). Fails as
  // prepare does.
  bool is_prepared(const Batch& batch) const;

  // Checks a prepared batch and returns the arrays that the graph of loss() reads. Programs depend
  // on their names, types and shapes only.
  Batch feed(const Batch& prepared, const model::ModelConfig& config) const;
  // Builds the loss. `arrays` has one value per array of feed(), by name.
  Loss loss(model::Builder& builder, const std::map<std::string, graph::Value>& arrays) const;

  // Returns the parts of the model that the loss reads in addition to the base and its adapters,
  // such as "teacher". Builder::part() gives the loss such a network, and
  // Builder::without_adapters() gives the base alone.
  virtual std::vector<std::string> other_parts() const { return terms_.parts(); }
  // Returns the parts that training changes, among the base and other_parts(). The base stands for
  // its adapters if it has any.
  virtual std::vector<std::string> trained_parts() const;
  // Returns the networks that the loss needs, by name, with the config that each one has from the
  // beginning. A trainer adds those that the model lacks.
  virtual std::map<std::string, Json> new_parts(const model::ModelConfig& base) const;
  // Fails with not_found or failed_precondition when the loss needs a part that the model lacks.
  void check_parts(const model::Model& model) const;

  // Returns the arrays that training keeps for this objective, with their first values. The loss
  // reads them as LossInputs::all["state:<name>"].
  virtual StateArrays first_state() const { return {}; }
  // Returns the feed of a loss with these arrays. An objective may make more arrays of both, such
  // as times that depend on the losses so far.
  virtual Batch with_state(Batch feed, const StateArrays& state) const;
  // Returns the arrays after an update whose losses observed these sums (Loss::observed). Called
  // once for every update that changed the weights, with the same numbers on every process. The
  // tensors of `state` must not be written: a checkpoint may be reading them. Sums that come from a
  // checkpoint may have any size.
  virtual StateArrays next_state(const StateArrays& state, const Observed& /*observed*/) const {
    return state;
  }

  // Return the setting of the loss for a model: the option, else the objective's need, else the
  // model's own.
  virtual model::AttentionKind attention(const model::ModelConfig& config) const;
  virtual int shift(const model::ModelConfig& config) const;
  // Returns the option, else the model's own length.
  int64_t block_length(const model::ModelConfig& config) const;

  // Returns true when a model is decoded with the noise schedule of its training.
  virtual bool keeps_schedule() const { return false; }
  // Returns true when the loss, with these options, bounds -log p of a text in nats per token.
  virtual bool bounds_likelihood() const { return false; }

  // Returns the use of a mask filler, which is in the options.
  const FillerUse& filler() const { return filler_; }

  // Returns name, effective options, schedule and active quirks.
  virtual Json describe() const;
  const Options& options() const { return options_; }
  const ScheduleRef& schedule() const { return schedule_; }

protected:
  // Does the work of prepare(). The batch holds no array of the loss, and prompt_length is merged
  // into keep.
  virtual Batch prepare_rows(const Batch& batch, uint64_t seed, int64_t step,
                             const PrepareContext& context) const = 0;
  // Does the work of feed() without the terms. An objective may add arrays to the arrays of the
  // base class.
  virtual Batch feed_rows(const Batch& prepared, const model::ModelConfig& config) const;
  // Returns the arrays that a prepared batch must have in addition to targets and weights.
  virtual std::vector<std::string> prepared_arrays() const { return {}; }
  // Returns the arrays of raw rows that the objective reads in addition to the arrays that every
  // objective reads.
  virtual std::vector<std::string> raw_arrays() const {
    return {"positions", "limit", "mask", "keys"};
  }

  // Builds the graph: the cross entropy of the targets (token_ce), or the objective's own loss.
  virtual Loss build_loss(model::Builder& builder, const LossInputs& inputs) const;

  // Returns the settings that choose the hidden states for the targets, for feed() of objectives
  // with their own arrays. Array "block_length", i32(), of the prepared rows has priority over the
  // objective's block length.
  TokenCeSettings token_ce_settings(const Batch& prepared, const model::ModelConfig& config) const;

  Objective(ScheduleRef schedule, Options options)
      : schedule_(std::move(schedule)), options_(std::move(options)), terms_(options_),
        filler_(options_) {}

  ScheduleRef schedule_;
  Options options_;

private:
  GivenRules given_rules() const;

  LossTerms terms_;
  FillerUse filler_;
};
using ObjectiveRef = std::shared_ptr<const Objective>;

std::vector<std::string> objective_names(); // "ar", "bd3lm", ...
// Returns the objectives whose rows are of one of these kinds, in the order of the kinds.
std::vector<std::string> objectives_of(std::span<const RowKind> kinds);
// Returns the schema "objective:<name>". The name "" gives the keys of all objectives
// ("objective").
const Schema& objective_schema(const std::string& name);
const ObjectiveFacts& objective_facts(const std::string& name);
// Makes an objective. A null schedule means the objective's default ("linear"; nano:
// "nano_cosine"). Fails with not_found and the nearest name.
ObjectiveRef make_objective(const std::string& name, ScheduleRef schedule, const Options& options);
ObjectiveRef make_objective(const std::string& name, ScheduleRef schedule = nullptr);
// Returns the objective without the terms of its options. Its loss can be compared between runs
// with and without a teacher.
ObjectiveRef without_terms(const ObjectiveRef& objective);
// Returns the objective with other options of its schema, which are not checked.
ObjectiveRef with_options(const Objective& objective, const Options& options);

} // namespace dllm::noise
