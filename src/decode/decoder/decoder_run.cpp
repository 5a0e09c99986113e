// Steps with events until all requests are done, steps that a budget may suspend inside a forward
// pass, and the readers of a decoder.

#include "base/error.h"
#include "decode/decoder/decoder.h"
#include "decode/trace/metrics.h"

#include <nlohmann/json.hpp>

namespace dllm::decode {

std::optional<std::vector<Decoder::Change>>
Decoder::advance_until(SlicedCall::Clock::time_point until, const Task* task) {
  bool ended = false;
  if (!sliced_.is_paused()) {
    sliced_requests_.clear();
    for (const Entry* entry : active_requests()) sliced_requests_.insert(entry->request.number);
  }
  try {
    ended = sliced_.is_paused()
                ? sliced_.resume(until, task)
                : sliced_.start([this](const Task* inner) { sliced_changes_ = advance(1, inner); },
                                until, task);
  } catch (...) {
    suspended_.store(false, std::memory_order_relaxed);
    throw;
  }
  suspended_.store(!ended, std::memory_order_relaxed);
  if (!ended) return std::nullopt;
  return std::move(sliced_changes_);
}

void Decoder::drop_suspended() {
  sliced_.drop();
  suspended_.store(false, std::memory_order_relaxed);
}

int64_t Decoder::step_for(std::chrono::nanoseconds budget, const EventFn& fn, Task* task) {
  const auto begin = SlicedCall::Clock::now();
  const auto most = SlicedCall::Clock::time_point::max() - begin;
  const auto until = budget < most ? begin + budget : SlicedCall::Clock::time_point::max();
  need_request();
  try_again();
  for (bool go_on = true; go_on && active_count() > 0;) {
    if (!is_suspended()) { // a suspended step checks the task, and a cancel drops the step
      check_task(task);
      drop_replays();
    }
    const auto changes = advance_until(until, task);
    if (!changes) break;
    go_on = show(fn, *changes) && SlicedCall::Clock::now() < until;
  }
  return report_failures();
}

namespace {

// Returns the event of a step. changed: positions whose token or state differs from the last event.
Event step_event(const Request& request, int64_t block, std::vector<int32_t> changed) {
  std::vector<int32_t> states;
  for (State state : request.states) states.push_back(static_cast<int32_t>(state));
  Event event(EventKind::decode_step);
  event.set("slot", request.number)
      .set("block", block)
      .set("step", request.steps)
      .set("nfe", request.evaluations);
  event.set("open", request.open_count(0, request.length()))
      .set("ids", request.ids)
      .set("states", states);
  return event.set("confidence", request.confidence).set("changed", std::move(changed));
}

// Sends an event. Returns true to go on, false to stop.
bool emit(const EventFn& fn, const Event& event) {
  const Answer answer = fn(event);
  if (answer == Answer::fail) fail(Code::callback_failed, "the callback failed");
  return answer == Answer::go_on;
}

} // namespace

bool Decoder::show(const EventFn& fn, const std::vector<Change>& changes) {
  if (!fn) return true;
  bool go_on = true;
  for (const Change& change : changes) {
    Entry& changed = entry(change.request);
    const Request& request = changed.request;
    const Outcome& outcome = change.outcome;
    std::vector<int32_t> positions;
    for (size_t i = 0; i < request.ids.size(); ++i) {
      // Policy editflow changes the length of the canvas.
      const bool is_new = i >= changed.shown_ids.size();
      if (is_new || request.ids[i] != changed.shown_ids[i] ||
          request.states[i] != changed.shown_states[i])
        positions.push_back(static_cast<int32_t>(i));
    }
    changed.shown_ids = request.ids;
    changed.shown_states = request.states;
    go_on = emit(fn, step_event(request, outcome.block, std::move(positions))) && go_on;
    if (!outcome.block_ended) continue;
    Event event(EventKind::block);
    event.set("slot", change.request)
        .set("block", outcome.block)
        .set("begin", outcome.begin)
        .set("end", outcome.end);
    event.set("ids", std::vector<int32_t>(request.ids.begin() + outcome.begin,
                                          request.ids.begin() + outcome.end));
    go_on = emit(fn, event) && go_on;
  }
  return go_on;
}

bool Decoder::run(const EventFn& fn, Task* task) {
  try_again();
  if (!is_suspended()) drop_replays(); // a suspended step still needs its own
  for (int64_t steps = 1; active_count() > 0; ++steps) {
    if (!is_suspended()) check_task(task);
    const std::vector<Change> changes =
        is_suspended() ? *advance_until(SlicedCall::Clock::time_point::max(), task)
                       : advance(INT64_MAX, task);
    if (task != nullptr)
      task->set_progress(steps, 0); // the total is unknown, because it depends on the tokens
    if (!show(fn, changes)) return false;
  }
  report_failures();
  return true;
}

RequestCopyRef Decoder::copy(int64_t number) const {
  return published_.request(number);
}

double Decoder::metric(int64_t number, const std::string& key) const {
  if (number != -1) return static_cast<double>(metric_of(*copy(number), key));
  return static_cast<double>(metric_of(DecoderMoment{published_.all(), is_suspended()}, key));
}

std::string Decoder::trace(int64_t number) const {
  if (!options().boolean("trace")) {
    fail_with_hint("make the decoder with trace = true", Code::failed_precondition,
                   "this decoder keeps no trace");
  }
  const RequestCopyRef held = copy(number);
  return held->trace->text(held->trace_lines);
}

Json Decoder::describe() const {
  const DecoderMoment moment{published_.all(), is_suspended()};
  const Published::All& now = moment.now;
  Json reported = describe_metrics(moment);
  Json slots = Json::array();
  for (const auto& [number, s] : now.slots) {
    slots.push_back({{"slot", number},
                     {"length", s->length()},
                     {"open", s->open},
                     {"steps", s->steps},
                     {"nfe", s->evaluations},
                     {"done", !s->active()}});
    if (s->failure != nullptr) {
      slots.back()["error"] = {{"status", code_name(s->failure->code())},
                               {"text", s->failure->text()},
                               {"hint", s->failure->hint()}};
    }
  }
  return {
      {"policy", options().str("policy")},
      {"options", options().to_json()},
      {"schedule", method_->schedule().describe()},
      {"mask_id", method_->mask_id()},
      {"cache",
       {{"bytes", now.totals.cache_bytes},
        {"rows", now.totals.cache_rows},
        {"capacity", now.totals.cache_capacity},
        {"reused", now.totals.reused}}},
      {"approximation", method_->policy().approximation()},
      {"loop",
       {{"runs_on", method_->runs_on_device() ? "device" : "host"}, {"why", method_->loop_why()}}},
      {"metrics", std::move(reported["metrics"])},
      {"units", std::move(reported["units"])},
      {"slots", slots}};
}

} // namespace dllm::decode
