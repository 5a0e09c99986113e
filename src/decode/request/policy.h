#pragma once
// A policy decides which positions of a canvas become which tokens, and when. A policy is made once
// for a decoder and read-only; what it remembers of one request is a session.

#include "base/json.h"
#include "base/options.h"
#include "decode/pass/pass.h"
#include "decode/request/request.h"
#include "graph/graph.h"
#include "model/config.h"
#include "noise/schedule.h"
#include "text/token_facts.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dllm::decode {

// The graph form of a rule: the same decisions as UnmaskingRule::choose, made by the program of a loop for
// all its rows at once. A loop is only offered where every comparison is one of f32 or i32 numbers
// that the host compares too: then both decide alike, and the host replays the loop's record.

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
  graph::Value over;    // u8(rows): the block is over with open positions; undefined: never
  graph::Value stuck;   // u8(rows): nothing can be decided, the host reports why; undefined: never
  graph::Value carry;   // i32(rows); undefined: as it was
  // i32, f32(rows, block, PredictionNeeds::soft_width): what decided positions feed to the next step.
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

// What a step did to a canvas, for events and traces.
struct Outcome {
  std::vector<int64_t> decided; // positions that were masked before and are not now, ascending
  int64_t block = 0, begin = 0, end = 0; // the block it worked on
  bool block_ended = false;
};

// One request under one policy. The decoder calls next_pass, runs the model, then calls apply; a pass
// that fails or is cancelled is repeated, so next_pass changes nothing.
class Session {
public:
  virtual ~Session() = default;
  // The same session once more, of the same class. The decoder takes a step on a copy of the request
  // and keeps the copy when nothing fails.
  virtual std::unique_ptr<Session> clone() const = 0;
  virtual PassRequest next_pass(const Request& request, const CacheView& cache) const = 0;
  // `predictions` in the order of pass.positions. Sets request.finish when the request is done. After a
  // pass of another kind the decoder calls next_pass again before the step ends.
  virtual Outcome apply(Request& request, const PassRequest& pass,
                        std::span<const Prediction> predictions) = 0;
  // The host decided instead (dllmx_decoder_commit): positions were written. Default:
  // unimplemented.
  virtual Outcome host_decided(Request& request, const std::vector<int64_t>& decided);
  // For loops that run without the host (Policy::loop), default: none. The coming step and those
  // behind it in the same block.
  virtual LoopPlan plan_loop(const Request& request, const CacheView& cache) const;
  virtual LoopTables loop_tables(const Request& request, int64_t steps) const;
  // What it remembers of the block, to compare with a reference; default: nothing.
  virtual Json memory() const;
  // Function evaluations as the policy's source counts them; default: steps with a pass.
  virtual int64_t nfe(const Request& request) const { return request.evaluations; }
};

// What a policy is made from; all references outlive it.
struct PolicySetup {
  const Options& options; // of kind decoder:<name>
  const noise::Schedule& schedule;
  const model::ModelConfig& config;
  int32_t mask_id;
  AttentionSpan span; // of the decoder's attention; sessions may set another on their request
  int shift;          // 1: hidden state of the position before predicts
  // Ids that have a token, with option suppress_unused; null: any id may be drawn.
  std::shared_ptr<const text::TokenFacts> tokens;

  int64_t i64(const char* key) const { return options.i64(key); }
  double f64(const char* key) const { return options.f64(key); }
};

class Policy {
public:
  explicit Policy(const PolicySetup& setup) : setup_(setup) {}
  virtual ~Policy() = default;
  // Prepares request (its blocks, its span; finish when nothing is open) and starts on it.
  virtual std::unique_ptr<Session> begin(Request& request) const = 0;

  // The same at each call. Default: the likeliest token of every wanted position.
  virtual PredictionNeeds needs() const { return {}; }
  // The graph form of its rule, where it has one; called once.
  virtual LoopOffer loop() const { return {nullptr, "this policy has no loop yet"}; }
  virtual std::string approximation() const { return ""; } // what is not exact, for describe

protected:
  const PolicySetup& setup() const { return setup_; }

private:
  PolicySetup setup_;
};

std::vector<std::string> policy_names();
// "decoder" for "", "decoder:<name>" else. Fails with not_found and the nearest name.
const Schema& decoder_schema(const std::string& policy);
std::unique_ptr<Policy> make_policy(const std::string& name, const PolicySetup& setup);

// Option block_length where it is set, else the model's own where it has one, else the default.
int64_t block_length_of(const PolicySetup& setup);
// The token id that the text says; what: "option stop". Fails with invalid_argument.
int32_t parse_id(const std::string& text, int64_t vocab, const char* what);
// Ids that a policy may draw by itself as noise, without one of them; null: all but that one.
std::shared_ptr<const std::vector<int32_t>> drawn_ids(const PolicySetup& setup, int32_t without);
// An option that is a token id, -1 for none; fails with invalid_argument for no token of the model.
int32_t token_option(const PolicySetup& setup, const char* key);

} // namespace dllm::decode
