#include "dllm/library.h"

#include "base/log.h"
#include "buffer_handle.h"
#include "build_info.h"

#include <string_view>

using namespace dllm;
using namespace dllm::abi;

int32_t dllm_abi_version(void) { return DLLM_ABI_VERSION; }

const char* dllm_version(void) { return DLLM_VERSION; }

const char* dllm_build_info(void) {
  return "{\"version\": \"" DLLM_VERSION "\", \"compiler\": \"" DLLM_COMPILER "\", \"build\": \"" DLLM_BUILD_TYPE
         "\", \"simd\": \"run-time dispatch\", \"lua\": " DLLM_HAS_LUA ", \"pjrt\": " DLLM_HAS_PJRT ", \"openmp\": " DLLM_HAS_OPENMP
         ", \"git\": \"" DLLM_GIT "\"}";
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
  if (level_known && sink_known) log_config(static_cast<LogLevel>(min_level), static_cast<LogSink>(sink));
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
