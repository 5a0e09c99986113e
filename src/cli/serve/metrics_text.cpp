#include "metrics_text.h"

#include <nlohmann/json.hpp>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

class Lines {
public:
  void begin(const std::string& name, const char* type, const char* help) {
    text += "# HELP dllm_" + name + " " + help + "\n# TYPE dllm_" + name + " " + type + "\n";
  }
  void add(const std::string& name, const std::string& labels, const Json& value) {
    text += "dllm_" + name + labels + " " + value.dump() + "\n";
  }
  void one(const std::string& name, const char* type, const char* help, const Json& value) {
    begin(name, type, help);
    add(name, "", value);
  }
  std::string text;
};

} // namespace

std::string metrics_text(const Json& queue, const std::map<std::string, int64_t>& answered,
                         int64_t memory, int64_t started) {
  const Json& totals = queue.at("totals");
  Lines lines;
  lines.begin("requests_total", "counter", "Texts that are over, by their end.");
  for (const char* end : {"completed", "failed", "cancelled", "late"})
    lines.add("requests_total", "{end=\"" + std::string(end) + "\"}", totals.at(end));
  lines.begin("requests", "gauge", "Texts that wait for a slot or are decoded.");
  for (const char* phase : {"waiting", "decoding"})
    lines.add("requests", "{phase=\"" + std::string(phase) + "\"}", queue.at(phase));
  lines.one("prompt_tokens_total", "counter", "Tokens of prompts whose texts are over.",
            totals.at("prompt_tokens"));
  lines.one("completion_tokens_total", "counter", "Tokens of texts that are over.",
            totals.at("completion_tokens"));
  lines.one("nfe_total", "counter", "Function evaluations of texts that are over.",
            totals.at("nfe"));
  lines.one("steps_total", "counter", "Steps of all texts together.", totals.at("steps"));
  lines.one("step_seconds_total", "counter", "Seconds in these steps.", totals.at("step_seconds"));
  lines.one("positions_total", "counter", "Positions that forward passes computed, with padding.",
            queue.at("computed"));
  lines.one("cache_bytes", "gauge", "Bytes of the KV cache.", queue.at("cache_bytes"));
  lines.one("process_resident_bytes", "gauge", "Resident memory of the server.", memory);
  lines.one("process_start_time_seconds", "gauge", "When the server started, since 1970.", started);
  lines.begin("http_requests_total", "counter", "HTTP requests by path and status.");
  for (const auto& [labels, count] : answered) lines.add("http_requests_total", labels, count);
  return lines.text;
}

} // namespace dllm::cli
