#pragma once
// The metrics of a server in the text format of Prometheus.

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <map>
#include <string>

namespace dllm::cli {

// models: of ModelShelf::describe; the lines of several models have a label with their name.
// answered: number of HTTP requests by path. memory: resident bytes of this process;
// started: seconds since 1970.
std::string metrics_text(const nlohmann::ordered_json& models,
                         const std::map<std::string, int64_t>& answered, int64_t memory,
                         int64_t started);

} // namespace dllm::cli
