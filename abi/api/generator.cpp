#include "generation.h"

#include <nlohmann/json.hpp>

#include <utility>

using namespace dllm;
using namespace dllm::abi;

dllm_status dllm_generator_load(const char* path, dllm_engine* engine,
                                const dllm_options* model_opts, const dllm_options* opts,
                                dllm_task* task, dllm_generator** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    const Options own = options_of(opts, "generator");
    auto [model, tokenizer] = load_with_tokenizer(path, engine, model_opts, task);
    *out = new dllm_generator(std::move(model), std::move(tokenizer), own);
  });
}

dllm_status dllm_generator_new(dllm_model* model, const dllm_tokenizer* tok,
                               const dllm_options* opts, dllm_generator** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    *out = new dllm_generator(need(model, "model").object, need(tok, "tok").object,
                              options_of(opts, "generator"));
  });
}

void dllm_generator_release(dllm_generator* generator) {
  release(generator);
}

dllm_status dllm_generator_add(dllm_generator* generator, const dllm_options* request,
                               dllm_task* task, int64_t* out_number, dllm_error* err) {
  return guard(err, [&] {
    generate::Generator& object = need_own(generator, "generator").object;
    need_out(out_number, "out_number");
    *out_number = object.add(options_of(request, "request"), task_of(task));
  });
}

dllm_status dllm_generator_remove(dllm_generator* generator, int64_t number, dllm_error* err) {
  return guard(err, [&] { need_own(generator, "generator").object.remove(number); });
}

dllm_status dllm_generator_step(dllm_generator* generator, dllm_task* task, int64_t* out_open,
                                dllm_error* err) {
  return guard(err, [&] {
    const int64_t open = need_own(generator, "generator").object.step(task_of(task));
    if (out_open != nullptr) *out_open = open;
  });
}

dllm_status dllm_generator_run(dllm_generator* generator, dllm_event_fn fn, void* user_data,
                               dllm_task* task, dllm_error* err) {
  return guard(err, [&] {
    need_own(generator, "generator").object.run(event_fn(fn, user_data), task_of(task));
  });
}

dllm_status dllm_generator_text(dllm_generator* generator, int64_t number, const char* part,
                                dllm_buffer* out, dllm_error* err) {
  return guard(err, [&] {
    generate::Generator& object = need_own(generator, "generator").object;
    const generate::TextPart wanted = text_part(part);
    need(out, "out"); // a text that is returned once must not be lost
    fill(out, object.text(number, wanted));
  });
}

dllm_status dllm_generator_describe(dllm_generator* generator, int64_t number, dllm_buffer* out,
                                    dllm_error* err) {
  return guard(err, [&] {
    generate::Generator& object = need_own(generator, "generator").object;
    fill_json(out, number == -1 ? object.describe() : object.describe(number));
  });
}

dllm_status dllm_generator_decoder(const dllm_generator* generator, dllm_decoder** out,
                                   dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    *out = new dllm_decoder(need(generator, "generator").object.decoder());
  });
}

dllm_status dllm_generator_model(const dllm_generator* generator, dllm_model** out,
                                 dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    *out = new dllm_model(need(generator, "generator").object.reader()->model());
  });
}

dllm_status dllm_generator_tokenizer(const dllm_generator* generator, dllm_tokenizer** out,
                                     dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    *out = new dllm_tokenizer(need(generator, "generator").object.reader()->tokenizer());
  });
}
