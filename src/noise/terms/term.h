#pragma once
// A term of a loss: a sum that is added to the loss of an objective, such as the alignment with a
// teacher. A term is weighed by its option, and 0 turns it off. A new term is its file in this
// folder, and its name twice in table.h.

#include "base/json.h"
#include "base/options.h"
#include "model/network/builder.h"
#include "noise/objective_facts.h"
#include "noise/schedules/schedule.h"
#include "noise/terms/teacher.h"
#include "tensor/batch.h"

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dllm::noise {

// What the arrays of a term depend on, in addition to the rows.
struct TermContext {
  int shift = 0;      // 1: the state before a token predicts the token
  int64_t layers = 0; // of the model
  int64_t vocab = 0;
  const Schedule* schedule = nullptr; // of the objective
};

// The draws of one batch.
struct TermDraws {
  uint64_t seed = 0;
  int64_t step = 0;
  int64_t first_row = 0; // global number of the first row of the batch
};

// A number that a term reports next to its sum: sum / count, both f32 scalars.
struct TermReport {
  std::string name;
  graph::Value sum, count;
};

// What the graph of a term reads.
struct TermInputs {
  model::Builder& builder;
  // The pass of the loss over its rows: its hidden states, and taps at `tap_rows`.
  const model::ForwardOutputs& student;
  Teacher& teacher;
  const std::map<std::string, graph::Value>& arrays; // all arrays of the feed
  std::vector<TermReport>& reported;                 // a term may add to it
};

class LossTerm {
public:
  virtual ~LossTerm() = default;

  // Adds the term's arrays to prepared rows. Each array has one entry per row of the batch, or is a
  // scalar, so a batch may be cut anywhere. The default adds nothing.
  virtual void prepare(Batch& /*prepared*/, const TermContext&, const TermDraws&) const {}
  // Returns true when prepared rows have these arrays.
  virtual bool is_prepared(const Batch&) const { return true; }
  // Adds the arrays that the graph reads. `feed` has the objective's arrays already. A term whose
  // weight differs between updates also sets weight_array(name), f32().
  virtual void feed(const Batch& prepared, const TermContext&, Batch& feed) const = 0;
  // Returns the networks of the model that the term reads and trains.
  virtual std::vector<std::string> parts() const { return {}; }
  // Returns those networks with the config that each one has from the beginning
  // (Objective::new_parts).
  virtual std::map<std::string, Json> new_parts(const model::ModelConfig& base) const;
  // Returns true when the term reads the hidden states of all positions in each layer,
  // ForwardOutputs::taps (batch, seq, hidden).
  virtual bool reads_states() const { return false; }
  // Returns the array of the feed that names rows of (batch * seq, hidden), i32(n). The pass of the
  // loss then has the hidden states of these rows in each layer (ForwardOutputs::taps). Null: the
  // term reads no such states. One term of a loss may read them.
  virtual const char* tap_rows() const { return nullptr; }
  // Returns the term without its weight as an f32 scalar, divided like the sum of the loss by the
  // sum of the normalizers.
  virtual graph::Value build(const TermInputs& inputs) const = 0;
};
using LossTermRef = std::shared_ptr<const LossTerm>;

// Returns the name of the array of the feed with a term's weight, f32(): "align_scale".
inline std::string weight_array(const std::string& term) {
  return term + "_scale";
}

// What a term reads of its teacher.
enum class TeacherUse {
  none,
  states,      // hidden states of the clean text
  predictions, // distributions of tokens. Option teacher_input chooses the tokens that are seen.
};

// The objective that a term is added to.
struct TermUse {
  const std::string& objective;
  RowKind rows;
  const Options& options;
};

// A row of the table. The first option is the weight of the term, and its key is the name of the
// term. Scripts may set the options at every level, so the value of an option is never a path.
struct TermEntry {
  std::vector<OptionSpec> options;
  LossTermRef (*make)(const Options&) = nullptr; // for a weight above 0
  TeacherUse teacher = TeacherUse::none;
  // A trainer with option replay builds the term again for earlier batches.
  bool is_replayed = false;
  // Fails with invalid_argument for an objective that the term does not fit. Null: the term fits
  // every objective whose tokens keep their places.
  void (*check)(const TermUse& use) = nullptr;

  const std::string& name() const { return options.front().key; }
  bool reads_teacher() const { return teacher != TeacherUse::none; }
  bool reads_predictions() const { return teacher == TeacherUse::predictions; }
};
template <class T> LossTermRef new_term(const Options& options) {
  return std::make_shared<T>(options);
}

} // namespace dllm::noise
