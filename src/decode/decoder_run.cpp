// Running to the end with events, and what a decoder tells about itself.

#include "decode/decoder.h"

#include "base/error.h"

#include <nlohmann/json.hpp>

namespace dllm::decode {
namespace {

// changed: positions whose token or state is another than in the event before.
Event step_event(const Slot& slot, int64_t block, std::vector<int32_t> changed) {
  std::vector<int32_t> states;
  for (State state : slot.states) states.push_back(static_cast<int32_t>(state));
  Event event(EventKind::decode_step);
  event.set("slot", slot.number)
      .set("block", block)
      .set("step", slot.steps)
      .set("nfe", slot.evaluations);
  event.set("open", slot.open_count(0, slot.length())).set("ids", slot.ids).set("states", states);
  return event.set("confidence", slot.confidence).set("changed", std::move(changed));
}

// True to go on, false to stop.
bool tell(const EventFn& fn, const Event& event) {
  const Answer answer = fn(event);
  if (answer == Answer::fail) fail(Code::callback_failed, "the callback failed");
  return answer == Answer::go_on;
}

} // namespace

bool Decoder::show(const EventFn& fn, const std::vector<Change>& changes) {
  if (!fn) return true;
  bool go_on = true;
  for (const Change& change : changes) {
    Request& changed = request(change.slot);
    const Slot& slot = changed.slot;
    const Outcome& outcome = change.outcome;
    std::vector<int32_t> positions;
    for (size_t i = 0; i < slot.ids.size(); ++i) {
      if (slot.ids[i] != changed.shown_ids[i] || slot.states[i] != changed.shown_states[i])
        positions.push_back(static_cast<int32_t>(i));
    }
    changed.shown_ids = slot.ids;
    changed.shown_states = slot.states;
    go_on = tell(fn, step_event(slot, outcome.block, std::move(positions))) && go_on;
    if (!outcome.block_ended) continue;
    Event event(EventKind::block);
    event.set("slot", change.slot)
        .set("block", outcome.block)
        .set("begin", outcome.begin)
        .set("end", outcome.end);
    event.set("ids",
              std::vector<int32_t>(slot.ids.begin() + outcome.begin, slot.ids.begin() + outcome.end));
    go_on = tell(fn, event) && go_on;
  }
  return go_on;
}

bool Decoder::run(const EventFn& fn, Task* task) {
  replay_.reset();
  for (int64_t steps = 1; active_count() > 0; ++steps) {
    if (!is_suspended()) check_task(task);
    const std::vector<Change> changes = is_suspended()
                                            ? *advance_until(SlicedCall::Clock::time_point::max(), task)
                                            : advance(INT64_MAX, task);
    if (task != nullptr) task->set_progress(steps, 0); // how many there will be depends on the tokens
    if (!show(fn, changes)) return false;
  }
  return true;
}

SlotCopyRef Decoder::copy(int64_t number) const {
  return published_.slot(number);
}

namespace {

double metric_of(const SlotCopy& s, const std::string& key) {
  if (key == "done") return s.active() ? 0 : 1;
  if (key == "finish") return static_cast<double>(s.finish);
  if (key == "steps") return static_cast<double>(s.steps);
  if (key == "nfe") return static_cast<double>(s.nfe);
  if (key == "commits") return static_cast<double>(s.commits);
  if (key == "prefills") return static_cast<double>(s.prefills);
  if (key == "launches") return static_cast<double>(s.launches);
  if (key == "round_trips") return static_cast<double>(s.round_trips);
  if (key == "decided") return static_cast<double>(s.decided);
  if (key == "open") return static_cast<double>(s.open);
  static const std::vector<std::string> keys = {
      "done",        "finish",  "steps", "nfe",   "commits",     "prefills", "launches",
      "round_trips", "decided", "open",  "slots", "cache_bytes", "reused", "computed", "suspended"};
  fail_with_hint(
      "metrics are done finish steps nfe commits prefills launches round_trips decided open; of "
      "slot -1 also slots cache_bytes reused computed suspended",
      Code::not_found, "no metric named \"{}\", nearest: {}", key, nearest(key, keys));
}

} // namespace

double Decoder::metric(int64_t number, const std::string& key) const {
  if (number != -1) return metric_of(*copy(number), key);
  const Published::All now = published_.all();
  if (key == "slots") return static_cast<double>(now.slots.size());
  if (key == "cache_bytes") return static_cast<double>(now.totals.cache_bytes);
  if (key == "reused") return static_cast<double>(now.totals.reused);
  if (key == "computed") return static_cast<double>(now.totals.computed);
  if (key == "launches") return static_cast<double>(now.totals.launches);
  if (key == "round_trips") return static_cast<double>(now.totals.round_trips);
  if (key == "suspended") return is_suspended() ? 1 : 0;
  const bool all_of = key == "done" || key == "finish";
  double total = all_of ? 1 : 0;
  if (now.slots.empty()) metric_of(SlotCopy{}, key); // an unknown key fails here too
  for (const auto& [n, s] : now.slots)
    total = all_of ? std::min(total, metric_of(*s, key) > 0 ? 1.0 : 0.0) : total + metric_of(*s, key);
  return total;
}

std::string Decoder::trace(int64_t number) const {
  if (!options_.boolean("trace")) {
    fail_with_hint("make the decoder with trace = true", Code::failed_precondition,
                   "this decoder keeps no trace");
  }
  const SlotCopyRef held = copy(number);
  return held->trace->text(held->trace_lines);
}

Json Decoder::describe() const {
  const Published::All now = published_.all();
  Json slots = Json::array();
  for (const auto& [number, s] : now.slots) {
    slots.push_back({{"slot", number},
                     {"length", s->length()},
                     {"open", s->open},
                     {"steps", s->steps},
                     {"nfe", s->evaluations},
                     {"done", !s->active()}});
  }
  return {{"policy", options_.str("policy")},
          {"options", options_.to_json()},
          {"schedule", schedule_->describe()},
          {"mask_id", mask_id_},
          {"cache",
           {{"bytes", now.totals.cache_bytes},
            {"rows", now.totals.cache_rows},
            {"capacity", now.totals.cache_capacity},
            {"reused", now.totals.reused}}},
          {"approximation", policy_->approximation()},
          {"loop", {{"runs_on", loop_ != nullptr ? "device" : "host"}, {"why", loop_why_}}},
          {"slots", slots}};
}

} // namespace dllm::decode
