#include "dllm/plugin.h"

#include "buffer_handle.h"
#include "pjrt/engine.h"

#include <nlohmann/json.hpp>

using namespace dllm;
using namespace dllm::abi;

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
