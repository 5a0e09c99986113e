#pragma once
// The metrics of a server in the text format of Prometheus.

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace dllm::cli {

// Numbers of HTTP answers by path and status.
using AnswerCounts = std::map<std::pair<std::string, int>, int64_t>;

// models: of ModelShelf::describe; the lines of several models have a label with their name.
// memory: resident bytes of this process; started: seconds since 1970.
std::string metrics_text(const nlohmann::ordered_json& models, const AnswerCounts& answered,
                         int64_t memory, int64_t started);

} // namespace dllm::cli
