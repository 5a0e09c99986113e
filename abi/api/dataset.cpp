#include "handles.h"


using namespace dllm;
using namespace dllm::abi;

namespace {

std::shared_ptr<const text::Tokenizer> tokenizer_of(const dllm_tokenizer* tok) {
  const dllm_tokenizer* given = optional(tok, "tok");
  return given == nullptr ? nullptr : given->object;
}

}  // namespace

dllm_status dllm_dataset_open(const char* path, const dllm_tokenizer* tok, const dllm_options* opts, dllm_task* task,
                              dllm_dataset** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    *out = new dllm_dataset(text::Dataset::open(need_text(path, "path"), tokenizer_of(tok),
                                                options_of(opts, "dataset"), task_of(task)));
  });
}

dllm_status dllm_dataset_new(const dllm_tokenizer* tok, const dllm_options* opts, dllm_dataset** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    *out = new dllm_dataset(std::make_shared<text::Dataset>(tokenizer_of(tok), options_of(opts, "dataset")));
  });
}

dllm_status dllm_dataset_add(dllm_dataset* data, const char* json, int64_t size, dllm_error* err) {
  return guard(err, [&] {
    text::Dataset& object = *need(data, "data").object;
    if (json == nullptr) fail(Code::invalid_argument, "json is NULL");
    object.add(need_content(json, size, "json"));
  });
}

void dllm_dataset_release(dllm_dataset* data) {
  release(data);
}

int64_t dllm_dataset_size(const dllm_dataset* data) {
  const Held held(data);
  return held ? held->object->size() : 0;
}

dllm_status dllm_dataset_save(const dllm_dataset* data, const char* path, const dllm_options* opts, dllm_task* task,
                              dllm_error* err) {
  return guard(err, [&] {
    const text::Dataset& object = *need(data, "data").object;
    object.save(need_text(path, "path"), options_of(opts, "save").boolean("overwrite"), task_of(task));
  });
}
