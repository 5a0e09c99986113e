#pragma once
// The graph form of a rule: the same decisions as UnmaskingRule::choose, made by the program of a loop for
// all its rows at once. A loop is only offered where every comparison is one of f32 or i32 numbers
// that the host compares too: then both decide alike, and the host replays the loop's record.

#include "decode/pass/pass_request.h"
#include "decode/pass/predictions.h"
#include "graph/graph.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dllm::decode {

// What is known before the forward pass. Arrays are (rows, block) unless noted.
struct LoopContext {
  graph::Graph& graph;
  graph::Value eligible; // u8: positions of the block that were not given
  graph::Value open;     // u8: masked ones
  graph::Value ids;      // i32
  graph::Value count;    // i32(rows): LoopTables::count of this step
  graph::Value level;    // f32(rows): LoopTables::level of this step
  graph::Value chance;   // f32: word 1 of each position's numbers; undefined unless uses_chance
  graph::Value carry;    // i32(rows)

  int64_t rows() const { return open.dim(0); }
  int64_t block() const { return open.dim(1); }
};

struct LoopChoice {
  graph::Value decided; // u8(rows, block): positions that take the predicted token
  graph::Value ended;   // u8(rows): the block is over; undefined: when nothing of it is open
  graph::Value stuck;   // u8(rows): nothing can be decided, the host reports why; undefined: never
  graph::Value carry;   // i32(rows); undefined: as it was
  // i32, f32(rows, block, Policy::soft_width()): what decided positions feed to the next step.
  graph::Value soft_ids, soft_weights;
};

class LoopRule {
public:
  virtual ~LoopRule() = default;
  virtual bool uses_chance() const { return false; }
  // A position that is predicted to be this token becomes masked again; -1: no token does that.
  virtual int32_t reopening() const { return -1; }
  // u8(rows, block), those to predict. Default: the open ones.
  virtual graph::Value wanted(const LoopContext& moment) const { return moment.open; }
  // predicted: (rows, block) each; zeros where a position was not wanted.
  virtual LoopChoice choose(const LoopContext& moment, const PredictionValues& predicted) const = 0;
};

// What a policy answers: a rule, or why there is none.
struct LoopOffer {
  std::unique_ptr<LoopRule> rule;
  std::string why_not; // "option early_exit looks at doubles"
};

// --- pieces of rules ---

// Positions of every row by score, equal ones by position; those outside `among` (u8) come last.
struct LoopOrder {
  graph::Value at;   // i32(rows, block): which position is at a place
  graph::Value rank; // i32(rows, block): the place of a position, its inverse
};
LoopOrder order_of(graph::Value scores, graph::Value among, bool largest_first);
graph::Value per_row(graph::Value x);                 // (rows) -> (rows, 1)
graph::Value any_of(graph::Value x);                  // u8(rows, block) -> u8(rows)
graph::Value without(graph::Value x, graph::Value y); // u8: x and not y
// u8(rows, block): the `count` i32(rows) first of an order, inside `among`.
graph::Value first_of(const LoopOrder& order, graph::Value count, graph::Value among);

// --- what a session plans for a loop ---

// The coming steps of one request's block: the window they share, and numbers the host makes beforehand.
struct LoopPlan {
  // The window of every step; positions: all that any of them may want predicted. A pass that is
  // no step comes before the loop.
  PassRequest pass;
  int64_t begin = 0, end = 0; // the block
  int64_t most_steps = 1;     // a block takes no more; the same for all blocks of a request
};

// One entry for each of the coming steps; what they mean is up to the rule.
struct LoopTables {
  explicit LoopTables(int64_t steps)
      : count(static_cast<std::size_t>(steps), INT32_MAX), level(count.size(), 0.0f),
        time(count.size(), 1.0) {}

  std::vector<int32_t> count;
  std::vector<float> level;
  std::vector<double> time; // PassRequest::time
  int32_t carry = 0;        // what the rule remembers of earlier steps
};

} // namespace dllm::decode
