#include "decode/decoder/step_events.h"

#include "base/error.h"

#include <cstdint>
#include <utility>

namespace dllm::decode {
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

Event block_event(const Request& request, const Outcome& outcome) {
  Event event(EventKind::block);
  event.set("slot", request.number)
      .set("block", outcome.block)
      .set("begin", outcome.begin)
      .set("end", outcome.end);
  return event.set("ids", std::vector<int32_t>(request.ids.begin() + outcome.begin,
                                               request.ids.begin() + outcome.end));
}

// Sends an event. Returns true to go on, false to stop.
bool emit(const EventFn& fn, const Event& event) {
  const Answer answer = fn(event);
  if (answer == Answer::fail) fail(Code::callback_failed, "the callback failed");
  return answer == Answer::go_on;
}

} // namespace

bool send_events(const EventFn& fn, SlotList& slots, const std::vector<Change>& changes) {
  if (!fn) return true;
  bool go_on = true;
  for (const Change& change : changes) {
    Slot& slot = slots.at(change.request);
    const Request& request = slot.request();
    go_on = emit(fn, step_event(request, change.outcome.block, slot.take_changed())) && go_on;
    if (change.outcome.block_ended) go_on = emit(fn, block_event(request, change.outcome)) && go_on;
  }
  return go_on;
}

} // namespace dllm::decode
