#include "decode/step/decoding_step.h"

#include <algorithm>
#include <iterator>

namespace dllm::decode {

DecodingStep::DecodingStep(const std::shared_ptr<model::Model>& model,
                           const std::shared_ptr<model::Model>& source, SlotList& slots,
                           DecodeState& state, Failures& failures, bool weights_may_change)
    : state_(state), weights_(model, source, state, slots, weights_may_change),
      passes_(model, state, failures, launches_),
      tokens_({slots, state, failures, weights_, passes_, launches_}),
      loops_({slots, state, failures, weights_, passes_, launches_}),
      arrays_({slots, state, failures, weights_, passes_, launches_}) {}

// Programs of arrays run first, because they change no canvas: so a cancel or a failure of the
// engine leaves every canvas as it was.
std::vector<Change> DecodingStep::take(const std::vector<Slot*>& active, int64_t limit,
                                       bool watched, const Task* task) {
  std::vector<Slot*> arrays, tokens;
  for (Slot* slot : active) (slot->method()->arrays() != nullptr ? arrays : tokens).push_back(slot);
  arrays_.launch(arrays, limit, watched, task);
  std::vector<Change> changes;
  if (LoopReplay::is_possible(tokens)) {
    changes = loops_.take(tokens, limit, task);
  } else if (!tokens.empty()) {
    loops_.drop(); // its record is outdated, because the canvas changes now
    changes = tokens_.take(tokens, task);
  }
  std::ranges::move(arrays_.replay(arrays), std::back_inserter(changes));
  std::ranges::sort(changes, {}, &Change::request);
  return changes;
}

void DecodingStep::predict(const std::vector<Slot*>& active, const Task* task) {
  tokens_.predict(active, task);
}

void DecodingStep::drop_replays() {
  loops_.drop();
  arrays_.drop();
}

DecoderTotals DecodingStep::totals() const {
  return {launches_.launches(),
          launches_.round_trips(),
          state_.bytes(),
          state_.rows(),
          state_.capacity(),
          state_.reused(),
          passes_.computed() + launches_.computed()};
}

} // namespace dllm::decode
