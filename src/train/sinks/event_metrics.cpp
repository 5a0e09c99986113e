#include "train/sinks/event_metrics.h"

#include "train/step/step_metrics.h"

#include <cmath>
#include <variant>
#include <vector>

namespace dllm::train {
namespace {

std::vector<EventMetric> make_rows() {
  std::vector<EventMetric> rows;
  for (const StepMetric& row : step_metrics())
    rows.push_back({EventKind::train_step, row.name, row.unit, row.sentence});
  const auto add = [&](EventKind event, const char* key, const char* unit, const char* sentence) {
    rows.push_back({event, key, unit, sentence});
  };
  add(EventKind::train_step, "nll", "nats",
      "The loss without the weights of the schedule, where the objective has one.");
  add(EventKind::train_step, "padding_share", "",
      "Share of the predicted tokens that is padding, for objectives that train on padding.");
  add(EventKind::eval, "loss", "nats", "Mean loss of the rows that are never trained on.");
  add(EventKind::eval, "stderr", "nats",
      "Standard error of the held-out loss, over rows that differ.");
  add(EventKind::eval, "bits_per_byte", "bits per byte",
      "The held-out loss per byte of text, where the loss bounds a likelihood.");
  return rows;
}

} // namespace

std::string EventMetric::column() const {
  return event == EventKind::eval ? "held_out_" + key : key;
}

std::string EventMetric::path() const {
  return (event == EventKind::eval ? "held_out/" : "train/") + key;
}

std::span<const EventMetric> event_metrics() {
  static const std::vector<EventMetric> rows = make_rows();
  return rows;
}

double number_of(const Event& event, std::string_view key) {
  const Event::Value* value = event.find(key);
  if (value == nullptr) return std::nan("");
  if (const auto* real = std::get_if<double>(value)) return *real;
  if (const auto* whole = std::get_if<int64_t>(value)) return static_cast<double>(*whole);
  return std::nan("");
}

} // namespace dllm::train
