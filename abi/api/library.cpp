// Implements dllm/library.h, dllm/registry.h and dllm/plugin.h.

#include "dllm/library.h"
#include "base/log.h"
#include "build_info.h"
#include "decode/request/policy.h"
#include "dllm/plugin.h"
#include "dllm/registry.h"
#include "guard.h"
#include "handles.h"
#include "model/config.h"
#include "noise/objective.h"
#include "noise/schedules/schedule.h"
#include "pjrt/engine.h"
#include "text/readers/readers.h"
#include "train/optimizer.h"
#include "train/sinks/sink.h"

#include <nlohmann/json.hpp>
#include <string_view>

using namespace dllm;
using namespace dllm::abi;

int32_t dllm_abi_version(void) {
  return DLLM_ABI_VERSION;
}

const char* dllm_version(void) {
  return DLLM_VERSION;
}

const char* dllm_build_info(void) {
  return "{\"version\": \"" DLLM_VERSION "\", \"compiler\": \"" DLLM_COMPILER
         "\", \"build\": \"" DLLM_BUILD_TYPE
         "\", \"simd\": \"run-time dispatch\", \"lua\": " DLLM_HAS_LUA ", \"pjrt\": " DLLM_HAS_PJRT
         ", \"openmp\": " DLLM_HAS_OPENMP ", \"git\": \"" DLLM_GIT "\"}";
}

int32_t dllm_has_feature(const char* name) {
  if (name == nullptr) return 0;
  const std::string_view wanted = name;
  if (wanted == "lua") return std::string_view(DLLM_HAS_LUA) == "true" ? 1 : 0;
  if (wanted == "pjrt") return std::string_view(DLLM_HAS_PJRT) == "true" ? 1 : 0;
  if (wanted == "openmp") return std::string_view(DLLM_HAS_OPENMP) == "true" ? 1 : 0;
  return wanted == "bf16" ? 1 : 0;
}

void dllm_log_config(int32_t min_level, int32_t sink) {
  const bool level_known = min_level >= DLLM_LOG_DEBUG && min_level <= DLLM_LOG_ERROR;
  const bool sink_known = sink >= DLLM_SINK_NONE && sink <= DLLM_SINK_QUEUE;
  if (level_known && sink_known)
    log_config(static_cast<LogLevel>(min_level), static_cast<LogSink>(sink));
}

int32_t dllm_log_next(dllm_buffer* out_line, int32_t* out_level) {
  return guard_value<int32_t>(0, [&]() -> int32_t {
    const Held held(out_line);
    if (!held) return 0;
    auto line = log_next();
    if (!line) return 0;
    if (out_level != nullptr) *out_level = static_cast<int32_t>(line->first);
    out_line->content = std::move(line->second);
    return 1;
  });
}

namespace {

std::vector<std::string> engine_kinds() {
  std::vector<std::string> kinds = {"cpu"};
  if (std::string_view(DLLM_HAS_PJRT) == "true") kinds.emplace_back("pjrt");
  return kinds;
}

// Returns the names of a kind. They are never freed, because callers get pointers to them.
const std::vector<std::string>* names_of(std::string_view kind) {
  static const std::vector<std::string> engines = engine_kinds(), sinks = train::sink_names();
  static const std::vector<std::string> families = model::family_names(),
                                        objectives = noise::objective_names();
  static const std::vector<std::string> policies = decode::policy_names(),
                                        optimizers = train::optimizer_names();
  static const std::vector<std::string> schedules = noise::schedule_names(),
                                        readers = text::record_readers().names();
  if (kind == "engine") return &engines;
  if (kind == "family") return &families;
  if (kind == "objective") return &objectives;
  if (kind == "optimizer") return &optimizers;
  if (kind == "policy") return &policies;
  if (kind == "reader") return &readers;
  if (kind == "schedule") return &schedules;
  if (kind == "sink") return &sinks;
  return nullptr;
}

} // namespace

const char* dllm_registry_name(const char* kind, int64_t index) {
  return guard_value<const char*>(nullptr, [&]() -> const char* {
    if (kind == nullptr || index < 0) return nullptr;
    if (std::string_view(kind) == "options") return option_kind_name(index);
    const std::vector<std::string>* names = names_of(kind);
    if (names == nullptr || index >= static_cast<int64_t>(names->size())) return nullptr;
    return (*names)[static_cast<size_t>(index)].c_str();
  });
}

dllm_status dllm_plugin_list(dllm_buffer* out, dllm_error* err) {
  return guard(err, [&] {
    need(out, "out");
    fill_json(out, pjrt::list_plugins());
  });
}

dllm_status dllm_plugin_describe(const char* plugin, dllm_buffer* out, dllm_error* err) {
  return guard(err, [&] {
    need(out, "out");
    fill_json(out, pjrt::describe_plugin(need_text(plugin, "plugin")));
  });
}
