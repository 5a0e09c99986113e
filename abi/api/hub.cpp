// Implements dllm/hub.h.
#include "dllm/hub.h"

#include "handles.h"
#include "hub/cache/inventory.h"
#include "hub/pull.h"

#include <nlohmann/json.hpp>

using namespace dllm;
using namespace dllm::abi;

dllm_status dllm_hub_pull(const char* name, const dllm_options* opts, dllm_task* task,
                          dllm_buffer* out, dllm_error* err) {
  return guard(err, [&] {
    need(out, "out"); // fails before the work begins
    const FileTask own(task);
    fill(out, hub::pull(need_text(name, "name"), options_of(opts, "hub"), own.get()));
  });
}

dllm_status dllm_hub_describe(const char* name, const dllm_options* opts, dllm_task* task,
                              dllm_buffer* out, dllm_error* err) {
  return guard(err, [&] {
    need(out, "out");
    const FileTask own(task);
    const Options options = options_of(opts, "hub");
    fill_json(out, hub::to_json(hub::plan_pull(need_text(name, "name"), options, own.get())));
  });
}

dllm_status dllm_hub_list(dllm_task* task, dllm_buffer* out, dllm_error* err) {
  return guard(err, [&] {
    need(out, "out");
    fill_json(out, hub::list_cache(task_of(task)));
  });
}

dllm_status dllm_hub_verify(const char* name, dllm_task* task, dllm_buffer* out, dllm_error* err) {
  return guard(err, [&] {
    need(out, "out");
    fill_json(out, hub::verify_cached(need_text(name, "name"), task_of(task)));
  });
}

dllm_status dllm_hub_remove(const char* name, dllm_task* task, dllm_buffer* out, dllm_error* err) {
  return guard(err, [&] {
    need(out, "out");
    fill_json(out, hub::remove_cached(need_text(name, "name"), task_of(task)));
  });
}
