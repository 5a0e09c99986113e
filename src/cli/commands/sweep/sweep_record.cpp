#include "sweep_record.h"

#include "../../command.h"

#include <fstream>
#include <set>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

} // namespace

SweepRecord::SweepRecord(const std::string& out) : path_(out + "/sweep.json") {
  std::ifstream file(path_, std::ios::binary);
  runs_ = Json::parse(file, nullptr, false);
  if (!runs_.is_object()) runs_ = Json::object();
}

void SweepRecord::set(const SweepRun& run, const std::string& state, const std::string& message,
                      const std::string& hint) {
  const std::vector<int64_t> before = continued_from(run);
  runs_[run.name] = {{"state", state}, {"config", run.config}};
  if (!message.empty()) runs_[run.name]["message"] = message;
  if (!hint.empty()) runs_[run.name]["hint"] = hint;
  if (!before.empty()) runs_[run.name]["continued_from"] = before;
  write();
}

std::string SweepRecord::state(const SweepRun& run) const {
  const auto found = runs_.find(run.name);
  if (found == runs_.end() || !found->is_object()) return "";
  const Json state = found->value("state", Json());
  return state.is_string() && found->value("config", Json()) == run.config
             ? state.get<std::string>()
             : "";
}

void SweepRecord::set_continued(const SweepRun& run, int64_t step) {
  std::vector<int64_t> steps = continued_from(run);
  if (step == 0 ? steps.empty() : !steps.empty() && steps.back() == step) return;
  steps.push_back(step);
  if (step == 0) steps.clear();
  Json& entry = runs_[run.name];
  if (!entry.is_object()) entry = Json::object();
  entry["continued_from"] = steps;
  write();
}

std::vector<int64_t> SweepRecord::continued_from(const SweepRun& run) const {
  const auto found = runs_.find(run.name);
  std::vector<int64_t> steps;
  if (found == runs_.end() || !found->is_object()) return steps;
  const Json before = found->value("continued_from", Json::array());
  for (const Json& step : before) {
    if (step.is_number_integer()) steps.push_back(step.get<int64_t>());
  }
  return steps;
}

std::vector<std::string> SweepRecord::others(const SweepPlan& plan) const {
  std::set<std::string> named;
  for (const SweepRun& run : plan.runs) named.insert(run.name);
  std::vector<std::string> names;
  for (const auto& [name, entry] : runs_.items()) {
    if (!named.contains(name) && entry.is_object() && entry.contains("state"))
      names.push_back(name);
  }
  return names;
}

void SweepRecord::write() const {
  write_all(path_, runs_.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

} // namespace dllm::cli
