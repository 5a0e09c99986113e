#include "handles.h"

#include "model/files/quantize.h"
#include "model/files/save.h"

#include <nlohmann/json.hpp>

#include <algorithm>

using namespace dllm;
using namespace dllm::abi;

dllm_status dllm_model_load(dllm_engine* engine, const char* path, const dllm_options* opts,
                            dllm_task* task, dllm_model** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    const auto& on = need(engine, "engine").object;
    *out = new dllm_model(
        model::load_model(on, need_place(path), options_of(opts, "model"), task_of(task)));
  });
}

dllm_status dllm_model_load_source(dllm_engine* engine, const dllm_source* source,
                                   const dllm_options* opts, dllm_task* task, dllm_model** out,
                                   dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    const auto& on = need(engine, "engine").object;
    const Source& files = *need(source, "source").object;
    *out = new dllm_model(model::load_model(on, files, options_of(opts, "model"), task_of(task)));
  });
}

dllm_status dllm_model_new(dllm_engine* engine, const char* config_json, int64_t size,
                           const dllm_options* opts, dllm_task* task, dllm_model** out,
                           dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    const auto& on = need(engine, "engine").object;
    if (config_json == nullptr) fail(Code::invalid_argument, "config_json is NULL");
    const Json config = parse_json(need_content(config_json, size, "config_json"), "config_json");
    *out = new dllm_model(model::new_model(on, config, options_of(opts, "model"), task_of(task)));
  });
}

dllm_status dllm_model_save(const dllm_model* model, const char* path, const dllm_options* opts,
                            dllm_task* task, dllm_error* err) {
  return guard(err, [&] {
    const model::Model& object = *need(model, "model").object;
    model::save_model(object, need_text(path, "path"), options_of(opts, "save"), task_of(task));
  });
}

dllm_status dllm_model_quantize(const char* path, const char* target, const dllm_options* opts,
                                dllm_task* task, dllm_buffer* out, dllm_error* err) {
  return guard(err, [&] {
    need(out, "out"); // fails before the work begins
    const FileTask own(task);
    fill_json(out, model::quantize_model(need_place(path), need_text(target, "target"),
                                         options_of(opts, "quantize"), own.get()));
  });
}

void dllm_model_release(dllm_model* model) {
  release(model);
}

dllm_status dllm_model_config(const dllm_model* model, dllm_buffer* out, dllm_error* err) {
  return guard(err, [&] {
    fill_json(out, model::config_to_json(need(model, "model").object->config_now()));
  });
}

dllm_status dllm_model_describe(const dllm_model* model, dllm_buffer* out, dllm_error* err) {
  return guard(err, [&] { fill_json(out, need(model, "model").object->describe()); });
}

dllm_status dllm_model_i64(const dllm_model* model, const char* key, int64_t* out,
                           dllm_error* err) {
  return guard(err, [&] {
    const int64_t value = need(model, "model").object->i64(need_text(key, "key"));
    need_out(out, "out") = value;
  });
}

int64_t dllm_model_version(const dllm_model* model) {
  const Held held(model);
  return held ? held->object->version() : 0;
}

int64_t dllm_model_param_count(const dllm_model* model) {
  const Held held(model);
  return held ? static_cast<int64_t>(held->object->params().names().size()) : 0;
}

const char* dllm_model_param_name(const dllm_model* model, int64_t index) {
  const Held held(model);
  if (!held || index < 0 || index >= static_cast<int64_t>(held->object->params().names().size()))
    return nullptr;
  return held->object->params().names()[static_cast<size_t>(index)].c_str();
}

dllm_status dllm_model_param(const dllm_model* model, const char* name, dllm_tensor** out,
                             dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    const auto& params = std::as_const(*need(model, "model").object).params();
    // The result is a copy, because training continues to write the parameter.
    *out = new dllm_tensor(params.read(need_text(name, "name")).clone());
  });
}

dllm_status dllm_model_set_param(dllm_model* model, const char* name, const dllm_tensor* value,
                                 dllm_error* err) {
  return guard(err, [&] {
    auto& params = need(model, "model").object->params();
    params.write(need_text(name, "name"), need(value, "value").object);
  });
}

dllm_status dllm_model_set_tokenizer(dllm_model* model, const dllm_tokenizer* tok,
                                     dllm_error* err) {
  return guard(
      err, [&] { model::set_tokenizer(*need(model, "model").object, *need(tok, "tok").object); });
}

dllm_status dllm_model_add_network(dllm_model* model, const dllm_model* other, const char* name,
                                   dllm_error* err) {
  return guard(err, [&] {
    model::Model& object = *need(model, "model").object;
    object.add_network(need_text(name, "name"), *need(other, "other").object);
  });
}

dllm_status dllm_model_remove_network(dllm_model* model, const char* name, dllm_error* err) {
  return guard(err, [&] { need(model, "model").object->remove_network(need_text(name, "name")); });
}

dllm_status dllm_model_forward(dllm_model* model, const dllm_batch* batch, const dllm_options* opts,
                               dllm_task* task, dllm_batch** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    model::Model& object = *need(model, "model").object;
    const Batch& arrays = need(batch, "batch").object;
    *out =
        new dllm_batch(model::forward(object, arrays, options_of(opts, "forward"), task_of(task)));
  });
}
