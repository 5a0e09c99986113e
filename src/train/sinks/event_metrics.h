#pragma once
// This table has the numbers of events by name. Sinks write them, and docs/guide/train.md lists
// them. Private to src/train.

#include "base/log.h"

#include <span>
#include <string>
#include <string_view>

namespace dllm::train {

struct EventMetric {
  EventKind event;  // train_step or eval
  std::string key;  // in the event
  std::string unit; // "": the number has no unit
  std::string sentence;

  // Returns a name that no other row has: "loss", "held_out_loss".
  std::string column() const;
  // Returns the name in a tree of names: "train/loss", "held_out/loss".
  std::string path() const;
};

// Returns all rows. The rows of a step come first. Objectives may have more parts of the loss.
std::span<const EventMetric> event_metrics();

// Returns a number of an event; NaN when the event lacks it.
double number_of(const Event& event, std::string_view key);

} // namespace dllm::train
