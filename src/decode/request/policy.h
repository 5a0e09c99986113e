#pragma once
// A policy decides which positions of a canvas get which tokens, and in which step. A decoder makes
// a policy once, and the policy is read-only. A session holds the policy's state of one request.

#include "base/json.h"
#include "base/options.h"
#include "decode/pass/pass.h"
#include "decode/request/request.h"
#include "graph/graph.h"
#include "model/config.h"
#include "model/params/part.h"
#include "noise/schedules/schedule.h"
#include "text/token_facts.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dllm::decode {

// The value of option schedule that means ModelConfig::schedule.
inline constexpr const char* kTrainedSchedule = "trained";

class ArrayPolicy;

// --- the graph form of a rule ---
//
// The graph form makes the same decisions as UnmaskingRule::choose, for all rows of a loop at once,
// inside the program. It is offered only if every comparison is between f32 or i32 numbers that the
// host compares too. Then host and program decide alike, and the host can replay the loop's record.

// The inputs of a decision before the forward pass. Arrays are (rows, block) unless noted.
struct LoopContext {
  graph::Graph& graph;
  graph::Value eligible; // u8: 1 for positions of the block that were not given
  graph::Value open;     // u8: 1 for open positions
  graph::Value ids;      // i32
  graph::Value count;    // i32(rows): LoopTables::count of this step
  graph::Value level;    // f32(rows): LoopTables::level of this step
  graph::Value chance;   // f32: random word 1 of each position; undefined unless uses_chance
  graph::Value carry;    // i32(rows): LoopTables::carry, then LoopChoice::carry of the step before

  int64_t rows() const { return open.dim(0); }
  int64_t block() const { return open.dim(1); }
};

// The decisions of one step. ended, over and stuck are u8(rows): 1 where the description is true.
struct LoopChoice {
  graph::Value decided; // u8(rows, block): 1 for positions that take the predicted token
  // The block is over. Undefined: a block is over when none of its positions is open.
  graph::Value ended;
  graph::Value over;  // the block is over with open positions; undefined: never
  graph::Value stuck; // no position can be decided, and the host reports why; undefined: never
  graph::Value carry; // i32(rows): a number for the next step; undefined: it does not change
  // i32, f32(rows, block, PredictionNeeds::soft_width): the SoftInput of decided positions.
  graph::Value soft_ids, soft_weights;
};

class LoopRule {
public:
  virtual ~LoopRule() = default;
  virtual bool uses_chance() const { return false; }
  // Returns a token that makes a position open again when it is predicted there; -1: there is none.
  virtual int32_t reopening() const { return -1; }
  // Returns u8(rows, block): 1 for the positions to predict. The default is the open positions.
  virtual graph::Value wanted(const LoopContext& moment) const { return moment.open; }
  // Decides a step. The arrays of `predicted` are (rows, block, ...), with zeros at positions that
  // `wanted` left out.
  virtual LoopChoice choose(const LoopContext& moment, const PredictionValues& predicted) const = 0;
};

// The graph form of a policy's rule, or the reason why there is none.
struct LoopOffer {
  std::unique_ptr<LoopRule> rule;
  std::string why_not; // for example "option early_exit has no graph form"
};

// --- pieces of rules ---

// An order of the positions of every row.
struct LoopOrder {
  graph::Value at;   // i32(rows, block): the position at each place of the order
  graph::Value rank; // i32(rows, block): the place of each position in the order
};
// Sorts the positions of every row by score. Equal scores keep the order of the positions, and
// positions outside `among` (u8) come last.
LoopOrder order_of(graph::Value scores, graph::Value among, bool largest_first);
graph::Value per_row(graph::Value x);                 // (rows) -> (rows, 1)
graph::Value any_of(graph::Value x);                  // u8(rows, block) -> u8(rows)
graph::Value without(graph::Value x, graph::Value y); // u8: x and not y
// Returns u8(rows, block): 1 for the first `count` i32(rows) positions of an order inside `among`.
graph::Value first_of(const LoopOrder& order, graph::Value count, graph::Value among);

// --- what a session plans for a loop ---

// The coming steps of the block of one request.
struct LoopPlan {
  // The pass of every step. `positions` are all positions that any of the steps may want predicted.
  // A pass of kind prefill or commit runs before the loop instead.
  PassRequest pass;
  int64_t begin = 0, end = 0; // the block
  // Most steps that a block takes; the same for all blocks of a request.
  int64_t most_steps = 1;
};

// Numbers that the host computes before the loop, one entry per coming step. The rule defines what
// count, level and carry mean.
struct LoopTables {
  explicit LoopTables(int64_t steps)
      : count(static_cast<std::size_t>(steps), INT32_MAX), level(count.size(), 0.0f),
        time(count.size(), 1.0) {}

  std::vector<int32_t> count;
  std::vector<float> level;
  std::vector<double> time; // PassRequest::time
  int32_t carry = 0;        // the state of the rule before the first step
};

// The changes of one step to a canvas, for events and traces.
struct Outcome {
  // Positions that were open before the step and are decided after it, ascending.
  std::vector<int64_t> decided;
  int64_t block = 0, begin = 0, end = 0; // the block that the step worked on
  bool block_ended = false;
  // Whether the step inserted or deleted tokens. A position of a prediction then names another
  // token after the step, or none.
  bool moved = false;
};

// One request under one policy. For each pass the decoder calls next_pass once, runs the model, and
// calls apply. The decoder keeps a planned pass until it ran, and asks again when the cache changed
// before. So next_pass does not change the session.
class Session {
public:
  virtual ~Session() = default;
  // Returns a copy of the same class. The decoder takes a step on a copy of request and session,
  // and keeps the copies if nothing fails.
  virtual std::unique_ptr<Session> clone() const = 0;
  // Returns what the request needs of the next forward pass. cache: what the cache keeps of the
  // request. If the request has no row yet, this is what it would get.
  virtual PassRequest next_pass(const Request& request, const CacheView& cache) const = 0;
  // Applies the predictions of a pass to the request. `predictions` has the order of
  // pass.positions. Sets request.finish when the request is done. After a prefill or commit pass
  // the decoder calls next_pass again before the step ends.
  virtual Outcome apply(Request& request, const PassRequest& pass,
                        std::span<const Prediction> predictions) = 0;
  // Ends a step whose tokens the host wrote at `decided` (dllmx_decoder_commit). The default fails
  // with unimplemented.
  virtual Outcome host_decided(Request& request, const std::vector<int64_t>& decided);
  // For policies with a loop (Policy::loop): plan the coming step and the later steps of its block.
  // The defaults fail with internal.
  virtual LoopPlan plan_loop(const Request& request, const CacheView& cache) const;
  virtual LoopTables loop_tables(const Request& request, int64_t steps) const;
  // Returns the state of the rule in this block, for comparison with a reference. Default: empty.
  virtual Json memory() const;
  // Returns the number of function evaluations as the source of the policy counts them. Default:
  // steps with a forward pass.
  virtual int64_t nfe(const Request& request) const { return request.evaluations; }
};

// The inputs of a policy. All references outlive the policy.
struct PolicySetup {
  const Options& options; // of kind decoder:<policy>
  const noise::Schedule& schedule;
  const model::ModelConfig& config;
  int32_t mask_id;
  AttentionSpan span; // of the decoder's attention; a session may set another span on its request
  int shift;          // 1: position i predicts token i + 1
  // The ids that have a token, with option suppress_unused; null: any id may be drawn.
  std::shared_ptr<const text::TokenFacts> tokens;
  const model::PartTable* parts = nullptr; // of the model, for policies that read other networks

  int64_t i64(const char* key) const { return options.i64(key); }
  double f64(const char* key) const { return options.f64(key); }
};

class Policy {
public:
  explicit Policy(const PolicySetup& setup) : setup_(setup) {}
  virtual ~Policy() = default;
  // Sets the blocks and the span of `request` and returns a session for it. Sets request.finish if
  // no position is open.
  virtual std::unique_ptr<Session> begin(Request& request) const = 0;

  // Returns the same value at each call. Default: the likeliest token of every wanted position.
  virtual PredictionNeeds needs() const { return {}; }
  // Returns the graph form of the policy's rule, if it has one. Called once.
  virtual LoopOffer loop() const { return {nullptr, "this policy has no loop yet"}; }
  // Returns this policy if it decodes arrays (array/array_policy.h), else null.
  virtual const ArrayPolicy* arrays() const { return nullptr; }
  // Describes what the policy approximates, for Decoder::describe; "": nothing.
  virtual std::string approximation() const { return ""; }

protected:
  const PolicySetup& setup() const { return setup_; }

private:
  PolicySetup setup_;
};

std::vector<std::string> policy_names();
// Returns whether the tokens that the policy writes stay at the positions that they were drawn for.
bool writes_in_place(const std::string& policy);
// Returns the options of kind "decoder" for an empty name, else of kind "decoder:<policy>". Fails
// with not_found, naming the nearest policy, if the name is unknown.
const Schema& decoder_schema(const std::string& policy);

// Whether a request may set an option of its decoder: with a value in place of the decoder's, or
// with elements in addition to the decoder's.
enum class PerRequest { no, replaces, adds };
struct RequestKey {
  OptionSpec option; // of kind "decoder"
  PerRequest how;
};
// Returns the options of a decoder that kind "slot" has too, without those of draws.
const std::vector<RequestKey>& request_settings();
std::unique_ptr<Policy> make_policy(const std::string& name, const PolicySetup& setup);

// Returns option block_length if it is set, else the model's block length, else the option's
// default.
int64_t block_length_of(const PolicySetup& setup);
// Returns the token id that `text` holds. Fails with invalid_argument if it is not below `vocab`.
// `what` names the source in the error, for example "option stop".
int32_t parse_id(const std::string& text, int64_t vocab, const char* what);
// Returns the ids that a policy may draw as noise, all except `without`. Null: every id except
// `without`.
std::shared_ptr<const std::vector<int32_t>> drawn_ids(const PolicySetup& setup, int32_t without);
// Returns the value of an option that is a token id; -1: none. Fails with invalid_argument if the
// model has no such token.
int32_t token_option(const PolicySetup& setup, const char* key);

} // namespace dllm::decode
