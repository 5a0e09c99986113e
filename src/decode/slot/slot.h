#pragma once
// A slot is the place of one request in a decoder. It holds the request, its session and its row of
// the cache, and the pass and the predictions of the coming step.

#include "base/error.h"
#include "decode/cache/cache_row.h"
#include "decode/cache/decode_state.h"
#include "decode/method/method.h"
#include "decode/pass/pass.h"
#include "decode/request/policy.h"
#include "decode/request/request.h"
#include "decode/slot/vetoes.h"
#include "decode/trace/published.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace dllm::decode {

// The result of a step of one request.
struct Change {
  int64_t request;
  Outcome outcome;
};

// A step on copies of a request and its session. The copies replace both if nothing fails.
struct Trial {
  Request request;
  std::unique_ptr<Session> session;
  Outcome outcome;
};

class Slot {
public:
  // Begins the session of the request. `state` outlives the slot.
  Slot(std::shared_ptr<Method> method, Request request, DecodeState& state);

  int64_t number() const { return request_.number; }
  bool is_active() const { return request_.active(); }
  const Request& request() const { return request_; }
  const Session& session() const { return *session_; }
  const std::shared_ptr<Method>& method() const { return method_; }
  CacheRow& cache_row() { return cache_row_; }

  // Plans the pass of the coming step. A planned pass stays until it ran, unless the cache changed.
  void plan_pass();
  LoopPlan plan_loop();
  // Returns the number of leading positions that this slot, which has no row of the cache yet,
  // could copy after the planned pass of another slot ran. 0: it has about as many without it.
  int64_t shared_after(const Slot& other) const;
  // Sets a pass that the session did not plan.
  void set_pass(PassRequest pass);
  const PassRequest& pass() const { return pass_; }
  PassRow pass_row() const { return {&request_, &pass_, cache_row_.number(), bans_}; }
  // Sets PassRow::banned of the planned pass.
  void set_bans(std::vector<BanRow> bans) { bans_ = std::move(bans); }
  // Counts a launch that the request took part in. waited: the host waited for its results.
  void count_launch(bool waited);
  // Ends a pass that ran and keeps its predictions.
  void end_pass(std::vector<Prediction> predictions);
  // Counts and applies a pass that only wrote K and V.
  void end_filling();

  // The predictions of the last pass.
  std::vector<Prediction>& predictions() { return predictions_; }
  const std::vector<Prediction>& predictions() const { return predictions_; }
  // Whether the predictions are complete and wait for a step or a commit.
  bool is_predicted() const { return predicted_; }
  void set_predicted(bool predicted) { predicted_ = predicted; }
  // The vetoes of the step, for a request with a constraint.
  std::optional<Vetoes>& vetoes() { return vetoes_; }

  Trial copy() const;     // copies without an outcome
  Trial try_step() const; // copies to which the session applied the predictions
  Change accept(Trial trial);
  // Ends the step of the request: updates its counters and applies its stop tokens.
  Change finish(Outcome outcome);

  // Ends the request. The canvas stays as before the step.
  void fail(const Error& error);
  void stop(); // the same without an error
  // Makes a failed request active again.
  void try_again();
  // Returns null when the request did not fail.
  const std::shared_ptr<const Error>& failure() const { return failure_; }

  // Begins a trace with the present canvas.
  void begin_trace(int64_t most_bytes);
  // Returns the likeliest tokens of each position at its last writing, by position; only with
  // PredictionNeeds::kept.
  const std::map<int64_t, std::vector<TokenShare>>& kept() const { return kept_; }
  // Returns null when no trace is kept.
  const std::shared_ptr<TraceLog>& trace() const { return trace_; }
  // Returns the positions whose token or state changed since the last call or the admission.
  std::vector<int32_t> take_changed();

private:
  void end(Finish finish);
  void keep_likely(const Outcome& outcome);

  std::shared_ptr<Method> method_;
  Request request_;
  std::vector<int32_t> shown_ids_; // the canvas of the last take_changed()
  std::vector<State> shown_states_;
  std::unique_ptr<Session> session_;
  CacheRow cache_row_;
  PassRequest pass_;
  std::optional<CacheView> planned_; // the view that pass_ was planned for; not set: it was not
  std::vector<Prediction> predictions_;
  bool predicted_ = false;
  std::optional<Vetoes> vetoes_;
  std::vector<BanRow> bans_; // empty: those of the method
  std::map<int64_t, std::vector<TokenShare>> kept_;
  std::shared_ptr<const Error> failure_;
  std::shared_ptr<TraceLog> trace_;
};

} // namespace dllm::decode
