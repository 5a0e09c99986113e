#include "handles.h"

#include "model/adapters/adapter.h"
#include "model/adapters/adapter_file.h"
#include "model/adapters/adapter_save.h"

#include <nlohmann/json.hpp>

using namespace dllm;
using namespace dllm::abi;

dllm_status dllm_model_add_adapter(dllm_model* model, const char* name, const dllm_options* opts,
                                   dllm_task* task, dllm_error* err) {
  return guard(err, [&] {
    model::Model& object = *need(model, "model").object;
    const Options options = options_of(opts, "adapter");
    const std::string own = need_text(name, "name");
    model::add_adapter(object, model::adapter_options(own, options), nullptr, task_of(task));
  });
}

dllm_status dllm_model_load_adapter(dllm_model* model, const char* path, const char* name,
                                    dllm_task* task, dllm_error* err) {
  return guard(err, [&] {
    model::Model& object = *need(model, "model").object;
    model::load_adapter(object, need_text(name, "name"), need_place(path), task_of(task));
  });
}

dllm_status dllm_model_save_adapter(const dllm_model* model, const char* path, const char* name,
                                    dllm_task* task, dllm_error* err) {
  return guard(err, [&] {
    const model::Model& object = *need(model, "model").object;
    model::save_adapter(object, need_text(name, "name"), need_text(path, "path"), task_of(task));
  });
}

dllm_status dllm_model_merge_adapter(dllm_model* model, const char* name, dllm_task* task,
                                     dllm_error* err) {
  return guard(err, [&] {
    model::Model& object = *need(model, "model").object;
    if (name == nullptr)
      model::merge_adapters(object, task_of(task));
    else
      model::merge_adapter(object, name, task_of(task));
  });
}

dllm_status dllm_model_remove_adapter(dllm_model* model, const char* name, dllm_error* err) {
  return guard(
      err, [&] { model::remove_adapter(*need(model, "model").object, need_text(name, "name")); });
}

dllm_status dllm_model_set_adapter_scale(dllm_model* model, const char* name, double scale,
                                         dllm_error* err) {
  return guard(err, [&] {
    model::set_adapter_scale(*need(model, "model").object, need_text(name, "name"), scale);
  });
}

dllm_status dllm_model_adapters(const dllm_model* model, dllm_buffer* out, dllm_error* err) {
  return guard(err, [&] { fill_json(out, model::list_adapters(*need(model, "model").object)); });
}
