#include "metrics_text.h"

#include <nlohmann/json.hpp>

#include <string>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

// The metrics of queues: where a model's row has the value. A "gauge" of a model that is not loaded
// is 0.
struct QueueMetric {
  const char *name, *labels, *type, *help;
  const char *place, *key;
};

constexpr QueueMetric kQueueMetrics[] = {
    {"requests_total", "end=\"completed\"", "counter", "Texts that are over, by their end.",
     "totals", "completed"},
    {"requests_total", "end=\"failed\"", "counter", "", "totals", "failed"},
    {"requests_total", "end=\"cancelled\"", "counter", "", "totals", "cancelled"},
    {"requests_total", "end=\"late\"", "counter", "", "totals", "late"},
    {"requests", "phase=\"waiting\"", "gauge", "Texts that wait for a slot or are decoded.",
     "queue", "waiting"},
    {"requests", "phase=\"decoding\"", "gauge", "", "queue", "decoding"},
    {"prompt_tokens_total", "", "counter", "Tokens of prompts whose texts are over.", "totals",
     "prompt_tokens"},
    {"completion_tokens_total", "", "counter", "Tokens of texts that are over.", "totals",
     "completion_tokens"},
    {"nfe_total", "", "counter", "Function evaluations of texts that are over.", "totals", "nfe"},
    {"steps_total", "", "counter", "Steps of all texts together.", "totals", "steps"},
    {"step_seconds_total", "", "counter", "Seconds in these steps.", "totals", "step_seconds"},
    {"positions_total", "", "counter",
     "Positions that forward passes computed, with padding, since the model was loaded.", "queue",
     "computed"},
    {"cache_bytes", "", "gauge", "Bytes of the KV cache.", "queue", "cache_bytes"},
};

class Lines {
public:
  void begin(const std::string& name, const char* type, const char* help) {
    text += "# HELP dllm_" + name + " " + help + "\n# TYPE dllm_" + name + " " + type + "\n";
  }
  void add(const std::string& name, const std::string& labels, const Json& value) {
    const std::string shown = labels.empty() ? "" : "{" + labels + "}";
    text += "dllm_" + name + shown + " " + value.dump() + "\n";
  }
  void one(const std::string& name, const char* type, const char* help, const Json& value) {
    begin(name, type, help);
    add(name, "", value);
  }
  std::string text;
};

std::string label_of(const std::string& name) {
  std::string label = "model=\"";
  for (const char c : name)
    label += c == '\\' || c == '"' ? std::string("\\") + c : std::string(1, c);
  return label + '"';
}

void add_models(Lines& lines, const Json& models) {
  lines.begin("model_loaded", "gauge", "1: the weights of the model are in memory.");
  for (const Json& model : models)
    lines.add("model_loaded", label_of(model.at("name")), model.at("loaded") == true ? 1 : 0);
  lines.begin("model_weight_bytes", "gauge",
              "Bytes of the weights of the model, when it is loaded.");
  for (const Json& model : models)
    lines.add("model_weight_bytes", label_of(model.at("name")), model.at("bytes"));
}

} // namespace

std::string metrics_text(const Json& models, const std::map<std::string, int64_t>& answered,
                         int64_t memory, int64_t started) {
  Lines lines;
  for (const QueueMetric& metric : kQueueMetrics) {
    if (*metric.help != '\0') lines.begin(metric.name, metric.type, metric.help);
    for (const Json& model : models) {
      std::string labels = metric.labels;
      if (models.size() > 1) labels += (labels.empty() ? "" : ",") + label_of(model.at("name"));
      const Json& place = model.at(metric.place);
      lines.add(metric.name, labels,
                place.is_object() && place.contains(metric.key) ? place.at(metric.key) : Json(0));
    }
  }
  if (models.size() > 1) add_models(lines, models);
  lines.one("process_resident_bytes", "gauge", "Resident memory of the server.", memory);
  lines.one("process_start_time_seconds", "gauge", "When the server started, since 1970.", started);
  lines.begin("http_requests_total", "counter", "HTTP requests by path.");
  for (const auto& [labels, count] : answered)
    lines.text += "dllm_http_requests_total" + labels + " " + std::to_string(count) + "\n";
  return lines.text;
}

} // namespace dllm::cli
