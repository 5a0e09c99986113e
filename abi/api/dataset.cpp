// Implements dllm/dataset.h and dllm/loader.h.

#include "handles.h"

using namespace dllm;
using namespace dllm::abi;

namespace {

std::shared_ptr<const text::Tokenizer> tokenizer_of(const dllm_tokenizer* tok) {
  const dllm_tokenizer* given = optional(tok, "tok");
  return given == nullptr ? nullptr : given->object;
}

} // namespace

dllm_status dllm_dataset_open(const char* path, const dllm_tokenizer* tok, const dllm_options* opts,
                              dllm_task* task, dllm_dataset** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    const FileTask own(task);
    *out = new dllm_dataset(text::Dataset::open(need_text(path, "path"), tokenizer_of(tok),
                                                options_of(opts, "dataset"), own.get()));
  });
}

dllm_status dllm_dataset_new(const dllm_tokenizer* tok, const dllm_options* opts,
                             dllm_dataset** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    *out = new dllm_dataset(
        std::make_shared<text::Dataset>(tokenizer_of(tok), options_of(opts, "dataset")));
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

dllm_status dllm_dataset_save(const dllm_dataset* data, const char* path, const dllm_options* opts,
                              dllm_task* task, dllm_error* err) {
  return guard(err, [&] {
    const text::Dataset& object = *need(data, "data").object;
    object.save(need_text(path, "path"), options_of(opts, "save").boolean("overwrite"),
                task_of(task));
  });
}

dllm_status dllm_loader_new(dllm_dataset* data, const dllm_options* opts, dllm_loader** out,
                            dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    const auto& rows = need(data, "data").object;
    *out = new dllm_loader(rows, options_of(opts, "loader"));
  });
}

void dllm_loader_release(dllm_loader* loader) {
  release(loader);
}

dllm_status dllm_loader_next(dllm_loader* loader, dllm_batch** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    *out = new dllm_batch(need_own(loader, "loader").object.next());
  });
}

dllm_status dllm_loader_seek(dllm_loader* loader, int64_t position, dllm_error* err) {
  return guard(err, [&] {
    text::Loader& object = need_own(loader, "loader").object;
    if (position < 0) fail(Code::invalid_argument, "position is {}, not 0 or more", position);
    object.seek(position);
  });
}

int64_t dllm_loader_position(const dllm_loader* loader) {
  const Held held(loader);
  return held ? held->object.position() : 0;
}
