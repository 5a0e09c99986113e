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
    {"reused_positions_total", "", "counter",
     "Positions that were not computed again, since the model was loaded.", "queue", "reused"},
    {"launches_total", "", "counter",
     "Programs that the engine ran for forward passes, since the model was loaded.", "queue",
     "launches"},
    {"cache_bytes", "", "gauge", "Bytes of the KV cache.", "queue", "cache_bytes"},
};

// Histograms of texts that are over. The key is that of "durations" of a queue.
struct QueueHistogram {
  const char *name, *help, *key;
};

constexpr QueueHistogram kHistograms[] = {
    {"waiting_seconds", "Seconds of texts before their first step.", "waiting"},
    {"first_text_seconds", "Seconds of texts until some of their text was final.", "first_text"},
    {"request_seconds", "Seconds of texts from the request to their end.", "whole"},
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

std::string joined(const std::string& labels, const std::string& more) {
  return labels.empty() || more.empty() ? labels + more : labels + "," + more;
}

// Adds a histogram of a queue. Prometheus counts what is below an edge, also below earlier ones.
void add_histogram(Lines& lines, const std::string& name, const std::string& labels,
                   const Json& durations) {
  int64_t count = 0;
  const Json &edges = durations.at("edges"), &counts = durations.at("counts");
  for (size_t i = 0; i < counts.size(); ++i) {
    count += counts[i].get<int64_t>();
    const std::string edge = i < edges.size() ? edges[i].dump() : "+Inf";
    lines.add(name + "_bucket", joined(labels, "le=\"" + edge + "\""), count);
  }
  lines.add(name + "_sum", labels, durations.at("seconds"));
  lines.add(name + "_count", labels, count);
}

std::string label_of(const std::string& name) {
  std::string label = "model=\"";
  for (const char c : name) {
    if (c == '\\' || c == '"') label += '\\';
    label += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
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

std::string metrics_text(const Json& models, const AnswerCounts& answered, int64_t memory,
                         int64_t started) {
  Lines lines;
  const auto label = [&](const Json& model) {
    return models.size() > 1 ? label_of(model.at("name")) : std::string();
  };
  for (const QueueMetric& metric : kQueueMetrics) {
    if (*metric.help != '\0') lines.begin(metric.name, metric.type, metric.help);
    for (const Json& model : models) {
      const std::string labels = joined(metric.labels, label(model));
      const Json& place = model.at(metric.place);
      lines.add(metric.name, labels,
                place.is_object() && place.contains(metric.key) ? place.at(metric.key) : Json(0));
    }
  }
  for (const QueueHistogram& histogram : kHistograms) {
    lines.begin(histogram.name, "histogram", histogram.help);
    for (const Json& model : models) { // one that was never loaded has none
      if (model.at("durations").contains(histogram.key))
        add_histogram(lines, histogram.name, label(model), model["durations"][histogram.key]);
    }
  }
  if (models.size() > 1) add_models(lines, models);
  lines.one("process_resident_bytes", "gauge", "Resident memory of the server.", memory);
  lines.one("process_start_time_seconds", "gauge", "When the server started, since 1970.", started);
  lines.begin("http_requests_total", "counter",
              "HTTP requests by path and status. 499: the client left before its answer.");
  for (const auto& [place, count] : answered) {
    lines.add("http_requests_total",
              "path=\"" + place.first + "\",status=\"" + std::to_string(place.second) + "\"",
              count);
  }
  return lines.text;
}

} // namespace dllm::cli
