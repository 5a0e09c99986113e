#include "model_handle.h"

#include "base/log.h"
#include "batch_handle.h"
#include "buffer_handle.h"
#include "ckpt/model_folder.h"
#include "engine_handle.h"
#include "options_handle.h"
#include "source_handle.h"
#include "task_handle.h"
#include "tensor_handle.h"
#include "tokenizer_handle.h"

#include <nlohmann/json.hpp>

#include <algorithm>

using namespace dllm;
using namespace dllm::abi;

namespace {

// Every save of the model writes the tokenizer's files too.
void lay_beside(model::Model& model, const text::Tokenizer& tokenizer) {
  const auto put = [&](const std::string& name, std::string content) {
    const auto text = std::make_shared<std::string>(std::move(content));
    model.set_side_file(name, Bytes(text->data(), text->size(), text));
  };
  put("tokenizer.json", tokenizer.to_json());
  // A chat template and the like of a loaded model stay.
  const auto files = model.side_files();
  const auto is_config = [](const auto& file) { return file.first == "tokenizer_config.json"; };
  if (std::none_of(files.begin(), files.end(), is_config)) put("tokenizer_config.json", tokenizer.config_json());
  // Several templates with names stay where they came from, in tokenizer_config.json.
  if (tokenizer.chat_templates().size() == 1) put("chat_template.jinja", tokenizer.chat_templates()[0].text);
}

// A .gguf file holds words in its own form; a folder's files were taken along by load_model.
std::shared_ptr<model::Model> with_tokenizer(std::shared_ptr<model::Model> model, const Source& source) {
  const auto is_gguf = [](const std::string& name) { return name.ends_with(".gguf"); };
  const std::vector<std::string> names = source.names();
  if (source.has("config.json") || std::none_of(names.begin(), names.end(), is_gguf)) return model;
  // A model without a usable tokenizer still loads; dllm_tokenizer_load fails with the same message.
  try {
    const auto tokenizer = load_tokenizer(source, options_of(nullptr, "tokenizer"));
    if (tokenizer->size() <= model->config().vocab_size) {
      lay_beside(*model, *tokenizer);
    } else {
      log(LogLevel::warn, "{}: the tokenizer is left out: it has {} tokens, the model's vocabulary {}",
          source.describe(), tokenizer->size(), model->config().vocab_size);
    }
  } catch (const Error& error) {
    log(LogLevel::warn, "{}: the tokenizer is left out: {}", source.describe(), error.text());
  }
  return model;
}

}  // namespace

dllm_status dllm_model_load(dllm_engine* engine, const char* path, const dllm_options* opts, dllm_task* task,
                            dllm_model** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    const auto& on = need(engine, "engine").object;
    const std::string from = need_text(path, "path");
    auto model = model::load_model(on, from, options_of(opts, "model"), task_of(task));
    *out = new dllm_model(with_tokenizer(std::move(model), *open_source(ckpt::model_folder(from))));
  });
}

dllm_status dllm_model_load_source(dllm_engine* engine, const dllm_source* source, const dllm_options* opts,
                                   dllm_task* task, dllm_model** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    const auto& on = need(engine, "engine").object;
    const Source& files = *need(source, "source").object;
    *out = new dllm_model(
        with_tokenizer(model::load_model(on, files, options_of(opts, "model"), task_of(task)), files));
  });
}

dllm_status dllm_model_new(dllm_engine* engine, const char* config_json, int64_t size, const dllm_options* opts,
                           dllm_task* task, dllm_model** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    const auto& on = need(engine, "engine").object;
    if (config_json == nullptr) fail(Code::invalid_argument, "config_json is NULL");
    const Json config = parse_json(need_content(config_json, size, "config_json"), "config_json");
    *out = new dllm_model(model::new_model(on, config, options_of(opts, "model"), task_of(task)));
  });
}

dllm_status dllm_model_save(const dllm_model* model, const char* path, const dllm_options* opts, dllm_task* task,
                            dllm_error* err) {
  return guard(err, [&] {
    const model::Model& object = *need(model, "model").object;
    model::save_model(object, need_text(path, "path"), options_of(opts, "save"), task_of(task));
  });
}

void dllm_model_release(dllm_model* model) {
  release(model);
}

dllm_status dllm_model_config(const dllm_model* model, dllm_buffer* out, dllm_error* err) {
  return guard(err, [&] { fill_json(out, model::config_to_json(need(model, "model").object->config_now())); });
}

dllm_status dllm_model_describe(const dllm_model* model, dllm_buffer* out, dllm_error* err) {
  return guard(err, [&] { fill_json(out, need(model, "model").object->describe()); });
}

dllm_status dllm_model_i64(const dllm_model* model, const char* key, int64_t* out, dllm_error* err) {
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
  if (!held || index < 0 || index >= static_cast<int64_t>(held->object->params().names().size())) return nullptr;
  return held->object->params().names()[static_cast<size_t>(index)].c_str();
}

dllm_status dllm_model_param(const dllm_model* model, const char* name, dllm_tensor** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    const auto& params = std::as_const(*need(model, "model").object).params();
    // A copy: training goes on writing the parameter.
    *out = new dllm_tensor(params.read(need_text(name, "name")).clone());
  });
}

dllm_status dllm_model_set_param(dllm_model* model, const char* name, const dllm_tensor* value, dllm_error* err) {
  return guard(err, [&] {
    auto& params = need(model, "model").object->params();
    params.write(need_text(name, "name"), need(value, "value").object);
  });
}

dllm_status dllm_model_set_tokenizer(dllm_model* model, const dllm_tokenizer* tok, dllm_error* err) {
  return guard(err, [&] {
    model::Model& object = *need(model, "model").object;
    const text::Tokenizer& tokenizer = *need(tok, "tok").object;
    if (tokenizer.size() > object.config().vocab_size) {
      fail(Code::invalid_argument, "the tokenizer has {} tokens, the model's vocabulary {}", tokenizer.size(),
           object.config().vocab_size);
    }
    lay_beside(object, tokenizer);
  });
}

dllm_status dllm_model_forward(dllm_model* model, const dllm_batch* batch, const dllm_options* opts, dllm_task* task,
                               dllm_batch** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    model::Model& object = *need(model, "model").object;
    const Batch& arrays = need(batch, "batch").object;
    *out = new dllm_batch(model::forward(object, arrays, options_of(opts, "forward"), task_of(task)));
  });
}
