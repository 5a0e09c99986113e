#include "source_handle.h"

using namespace dllm;
using namespace dllm::abi;

dllm_status dllm_source_new(dllm_source** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    *out = new dllm_source;
  });
}

void dllm_source_release(dllm_source* source) {
  release(source);
}

dllm_status dllm_source_add(dllm_source* source, const char* name, const void* data, int64_t size, int32_t lend,
                            dllm_error* err) {
  return guard(err, [&] {
    MemorySource& object = *need(source, "source").object;
    const auto bytes = need_array(static_cast<const std::byte*>(data), size, "data");
    if (lend != 0 && lend != 1) fail(Code::invalid_argument, "lend is {}, not 0 or 1", lend);
    object.add(need_text(name, "name"), bytes.data(), bytes.size(), lend == 0);
  });
}
