#include "decode/slot/slot.h"

#include "base/log.h"

#include <algorithm>
#include <utility>

namespace dllm::decode {
namespace {

// Warns if a request ended with open positions. A plan may be over before the model has predicted a
// token for every position.
void warn_of_masks(const Request& request) {
  const int64_t open = request.open_count(0, request.length());
  if (open == 0) return;
  log(LogLevel::warn,
      "slot {}: {} positions stay masked, because the model predicted the mask token: set "
      "suppress_mask to true, or take more steps",
      request.number, open);
}

// Ends the request if a stop token is decided and no position before it is open. All later open
// positions become that token.
void apply_stop(Request& request, Outcome& outcome) {
  const auto is_stop = [&](int32_t id) {
    const auto& stop = request.settings.stop;
    return std::find(stop.begin(), stop.end(), id) != stop.end();
  };
  if (request.settings.stop.empty()) return;
  for (int64_t p = request.origin; p < request.length() && !request.is_open(p); ++p) {
    const auto at = static_cast<size_t>(p);
    if (request.states[at] != State::final || !is_stop(request.ids[at])) continue;
    for (int64_t rest = p + 1; rest < request.length(); ++rest) {
      if (!request.is_open(rest)) continue;
      request.decide(rest, request.ids[at], request.confidence[at]);
      outcome.decided.push_back(rest);
    }
    request.finish = Finish::stopped;
    return;
  }
}

} // namespace

Slot::Slot(std::shared_ptr<Method> method, Request request, DecodeState& state)
    : method_(std::move(method)), request_(std::move(request)), shown_ids_(request_.ids),
      shown_states_(request_.states), session_(method_->policy().begin(request_)),
      cache_row_(state, {method_->passes().shift, method_->number(), method_->parts()}) {}

void Slot::plan_pass() {
  bans_.clear();
  if (planned_ && !pass_.cached) return;
  const CacheView view = cache_row_.view(request_);
  if (planned_ && *planned_ == view) return;
  planned_.reset();
  pass_ = session_->next_pass(request_, view);
  if (!pass_.parts) pass_.parts = method_->parts();
  cache_row_.place(request_, pass_);
  planned_ = view;
}

int64_t Slot::shared_after(const Slot& other) const {
  return cache_row_.shared_after(request_, other.cache_row_, other.request_, other.pass_.final_end);
}

LoopPlan Slot::plan_loop() {
  LoopPlan plan = session_->plan_loop(request_, cache_row_.view(request_));
  if (!plan.pass.parts) plan.pass.parts = method_->parts();
  cache_row_.place(request_, plan.pass);
  return plan;
}

void Slot::set_pass(PassRequest pass) {
  pass_ = std::move(pass);
  bans_.clear();
  planned_.reset();
}

void Slot::count_launch(bool waited) {
  ++request_.launches;
  request_.round_trips += waited ? 1 : 0;
}

void Slot::end_pass(std::vector<Prediction> predictions) {
  predictions_ = std::move(predictions);
  planned_.reset();
  bans_.clear();
  cache_row_.keep_final(request_, pass_);
}

void Slot::end_filling() {
  ++(pass_.kind == PassKind::prefill ? request_.prefills : request_.commits);
  session_->apply(request_, pass_, {});
  planned_.reset();
}

Trial Slot::copy() const {
  return {request_, session_->clone(), {}};
}

Trial Slot::try_step() const {
  Trial trial = copy();
  trial.outcome = trial.session->apply(trial.request, pass_, predictions_);
  return trial;
}

Change Slot::accept(Trial trial) {
  request_ = std::move(trial.request);
  session_ = std::move(trial.session);
  return finish(std::move(trial.outcome));
}

Change Slot::finish(Outcome outcome) {
  const bool ran = pass_.end > pass_.begin;
  ++request_.steps;
  request_.evaluations += ran ? 1 : 0;
  predicted_ = false;
  planned_.reset();
  if (method_->passes().needs.kept > 0) keep_likely(outcome);
  predictions_.clear();
  vetoes_.reset();
  apply_stop(request_, outcome);
  request_.decided += static_cast<int64_t>(outcome.decided.size());
  if (trace_) trace_->add(request_, outcome.decided);
  if (!request_.active()) {
    cache_row_.release();
    warn_of_masks(request_);
  }
  return {request_.number, std::move(outcome)};
}

// Keeps the likeliest tokens of the positions whose tokens this step wrote. A writing sets the
// confidence of its position to a probability of the prediction.
void Slot::keep_likely(const Outcome& outcome) {
  if (outcome.moved) kept_.clear(); // other tokens are at these positions now
  for (Prediction& p : predictions_) {
    const auto at = static_cast<size_t>(p.position);
    if (p.kept.empty() || at >= request_.ids.size() || request_.states[at] == State::fixed)
      continue;
    const int32_t own = request_.ids[at];
    const float confidence = request_.confidence[at];
    const bool is_written =
        !request_.is_open(p.position) && ((own == p.token && confidence == p.probability) ||
                                          (own == p.argmax && confidence == p.max_probability));
    if (is_written) kept_[p.position] = std::move(p.kept);
  }
}

void Slot::fail(const Error& error) {
  failure_ = std::make_shared<const Error>(error);
  end(Finish::failed);
}

void Slot::stop() {
  end(Finish::stopped);
}

void Slot::end(Finish finish) {
  request_.finish = finish;
  predicted_ = false;
  planned_.reset();
  predictions_.clear();
  vetoes_.reset();
  cache_row_.release();
}

void Slot::try_again() {
  if (failure_ == nullptr) return;
  failure_.reset();
  request_.finish = Finish::running;
}

void Slot::begin_trace(int64_t most_bytes) {
  trace_ = std::make_shared<TraceLog>(most_bytes);
  trace_->add(request_, {});
}

std::vector<int32_t> Slot::take_changed() {
  std::vector<int32_t> positions;
  for (size_t i = 0; i < request_.ids.size(); ++i) {
    // Policy editflow changes the length of the canvas.
    const bool is_new = i >= shown_ids_.size();
    if (is_new || request_.ids[i] != shown_ids_[i] || request_.states[i] != shown_states_[i])
      positions.push_back(static_cast<int32_t>(i));
  }
  shown_ids_ = request_.ids;
  shown_states_ = request_.states;
  return positions;
}

} // namespace dllm::decode
