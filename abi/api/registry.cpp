#include "dllm/registry.h"

#include "build_info.h"
#include "decode/request/policy.h"
#include "guard.h"
#include "model/config.h"
#include "noise/objective.h"
#include "noise/schedule.h"
#include "options_handle.h"
#include "train/optimizer.h"

using namespace dllm;
using namespace dllm::abi;

namespace {

std::vector<std::string> engine_kinds() {
  std::vector<std::string> kinds = {"cpu"};
  if (std::string_view(DLLM_HAS_PJRT) == "true") kinds.emplace_back("pjrt");
  return kinds;
}

// The names of a kind, kept for ever because pointers into them are lent.
const std::vector<std::string>* names_of(std::string_view kind) {
  static const std::vector<std::string> engines = engine_kinds(), sinks = {"console", "jsonl"};
  static const std::vector<std::string> families = model::family_names(), objectives = noise::objective_names();
  static const std::vector<std::string> policies = decode::policy_names(), optimizers = train::optimizer_names();
  static const std::vector<std::string> schedules = noise::schedule_names();
  if (kind == "engine") return &engines;
  if (kind == "family") return &families;
  if (kind == "objective") return &objectives;
  if (kind == "optimizer") return &optimizers;
  if (kind == "policy") return &policies;
  if (kind == "schedule") return &schedules;
  if (kind == "sink") return &sinks;
  return nullptr;
}

}  // namespace

const char* dllm_registry_name(const char* kind, int64_t index) {
  return guard_value<const char*>(nullptr, [&]() -> const char* {
    if (kind == nullptr || index < 0) return nullptr;
    if (std::string_view(kind) == "options") return option_kind_name(index);
    const std::vector<std::string>* names = names_of(kind);
    if (names == nullptr || index >= static_cast<int64_t>(names->size())) return nullptr;
    return (*names)[static_cast<size_t>(index)].c_str();
  });
}
