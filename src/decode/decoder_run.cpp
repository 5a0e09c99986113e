// Running to the end with events, and what a decoder tells about itself.

#include "decode/decoder.h"

#include "base/error.h"

#include <nlohmann/json.hpp>

namespace dllm::decode {
namespace {

Event step_event(const Slot& slot, int64_t block) {
  std::vector<int32_t> states;
  for (State state : slot.states) states.push_back(static_cast<int32_t>(state));
  Event event(EventKind::decode_step);
  event.set("slot", slot.number).set("block", block).set("step", slot.steps).set("nfe", slot.evaluations);
  event.set("open", slot.open_count(0, slot.length())).set("ids", slot.ids).set("states", states);
  return event.set("confidence", slot.confidence);
}

// True to go on, false to stop.
bool tell(const EventFn& fn, const Event& event) {
  const Answer answer = fn(event);
  if (answer == Answer::fail) fail(Code::callback_failed, "the callback failed");
  return answer == Answer::go_on;
}

}  // namespace

bool Decoder::run(const EventFn& fn, Task* task) {
  while (active_count() > 0) {
    check_task(task);
    const std::vector<Change> changes = advance(task);
    if (!fn) continue;
    bool go_on = true;
    for (const Change& change : changes) {
      const Slot& changed = slot(change.slot);
      go_on = tell(fn, step_event(changed, change.block)) && go_on;
      if (!change.block_ended) continue;
      Event event(EventKind::block);
      event.set("slot", change.slot).set("block", change.block).set("begin", change.begin).set("end", change.end);
      event.set("ids", std::vector<int32_t>(changed.ids.begin() + change.begin, changed.ids.begin() + change.end));
      go_on = tell(fn, event) && go_on;
    }
    if (!go_on) return false;
  }
  return true;
}

const Slot& Decoder::slot(int64_t number) const {
  const auto found = slots_.find(number);
  if (found == slots_.end()) fail(Code::not_found, "there is no slot {}", number);
  return found->second;
}

double Decoder::metric(int64_t number, const std::string& key) const {
  const auto of = [&](const Slot& s) -> double {
    if (key == "done") return s.active() ? 0 : 1;
    if (key == "finish") return static_cast<double>(s.finish);
    if (key == "steps") return static_cast<double>(s.steps);
    if (key == "nfe") return static_cast<double>(s.evaluations);
    if (key == "commits") return static_cast<double>(s.commits);
    if (key == "prefills") return 0;  // no cache yet: every step sees the whole canvas
    if (key == "open") return static_cast<double>(s.open_count(0, s.length()));
    static const std::vector<std::string> keys = {"done", "finish", "steps", "nfe", "commits", "prefills", "open", "slots"};
    fail_with_hint("metrics are done finish steps nfe commits prefills open; of slot -1 also slots", Code::not_found,
                   "no metric named \"{}\", nearest: {}", key, nearest(key, keys));
  };
  if (number >= 0) return of(slot(number));
  if (number != -1) fail(Code::not_found, "there is no slot {}", number);
  if (key == "slots") return static_cast<double>(slots_.size());
  const bool all_of = key == "done" || key == "finish";
  double total = all_of ? 1 : 0;
  if (slots_.empty()) of(Slot{});  // an unknown key fails here too
  for (const auto& [n, s] : slots_) total = all_of ? std::min(total, of(s) > 0 ? 1.0 : 0.0) : total + of(s);
  return total;
}

std::string Decoder::trace(int64_t number) const {
  if (!options_.boolean("trace")) {
    fail_with_hint("make the decoder with trace = true", Code::failed_precondition, "this decoder keeps no trace");
  }
  return slot(number).trace;
}

Json Decoder::describe() const {
  Json slots = Json::array();
  for (const auto& [number, s] : slots_) {
    slots.push_back({{"slot", number}, {"length", s.length()}, {"open", s.open_count(0, s.length())},
                     {"steps", s.steps}, {"nfe", s.evaluations}, {"done", !s.active()}});
  }
  return {{"policy", policy_->name()}, {"options", options_.to_json()}, {"schedule", schedule_->describe()},
          {"mask_id", mask_id_}, {"cache", "none: every step sees the whole canvas"}, {"slots", slots}};
}

}  // namespace dllm::decode
