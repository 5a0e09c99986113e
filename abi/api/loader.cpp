#include "handles.h"


using namespace dllm;
using namespace dllm::abi;

dllm_status dllm_loader_new(dllm_dataset* data, const dllm_options* opts, dllm_loader** out, dllm_error* err) {
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
    *out = new dllm_batch(need(loader, "loader").object.next());
  });
}

dllm_status dllm_loader_seek(dllm_loader* loader, int64_t position, dllm_error* err) {
  return guard(err, [&] {
    text::Loader& object = need(loader, "loader").object;
    if (position < 0) fail(Code::invalid_argument, "position is {}, not 0 or more", position);
    object.seek(position);
  });
}

int64_t dllm_loader_position(const dllm_loader* loader) {
  const Held held(loader);
  return held ? held->object.position() : 0;
}
