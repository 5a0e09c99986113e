#pragma once
// A term of a loss: a sum that is added to the loss of an objective, such as the alignment with a
// teacher. A term is weighed by its option, and 0 turns it off. A new term is its file in this
// folder, and its name twice here.

#include "base/options.h"
#include "model/network/builder.h"
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

// What the graph of a term reads.
struct TermInputs {
  model::Builder& builder;
  // The pass of the loss over its rows: its hidden states, and taps at `tap_rows`.
  const model::ForwardOutputs& student;
  Teacher& teacher;
  const std::map<std::string, graph::Value>& arrays; // all arrays of the feed
};

class LossTerm {
public:
  virtual ~LossTerm() = default;
  // Returns the name of the part of the loss: "align".
  virtual const char* name() const = 0;
  virtual bool reads_teacher() const { return false; }

  // Adds the term's arrays to prepared rows. Each array has one entry per row of the batch, or is a
  // scalar, so a batch may be cut anywhere. The default adds nothing.
  virtual void prepare(Batch& /*prepared*/, const TermContext&, const TermDraws&) const {}
  // Returns true when prepared rows have these arrays.
  virtual bool is_prepared(const Batch&) const { return true; }
  // Adds the arrays that the graph reads. `feed` has the objective's arrays already.
  virtual void feed(const Batch& prepared, const TermContext&, Batch& feed) const = 0;
  // Returns the term without its weight as an f32 scalar, divided like the sum of the loss by the
  // sum of the normalizers; and the weight.
  struct Built {
    graph::Value sum, weight; // f32 scalars
  };
  virtual Built build(const TermInputs& inputs) const = 0;
};
using LossTermRef = std::shared_ptr<const LossTerm>;

// A row of the table: options, with the weight of the term first, and a maker that returns null
// when the weight is 0.
struct TermEntry {
  std::vector<OptionSpec> options;
  LossTermRef (*make)(const Options&) = nullptr;
};

namespace term_files {

TermEntry align();
TermEntry distill();
TermEntry entropy();

inline constexpr TermEntry (*kTable[])() = {align, distill, entropy};

} // namespace term_files
} // namespace dllm::noise
