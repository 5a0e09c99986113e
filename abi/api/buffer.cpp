#include "buffer_handle.h"

using namespace dllm::abi;

dllm_buffer* dllm_buffer_new(void) {
  return guard_value<dllm_buffer*>(nullptr, [] { return new dllm_buffer; });
}

void dllm_buffer_release(dllm_buffer* buf) {
  release(buf);
}

const void* dllm_buffer_data(const dllm_buffer* buf) {
  const Held held(buf);
  return held ? held->content.c_str() : nullptr;
}

int64_t dllm_buffer_size(const dllm_buffer* buf) {
  const Held held(buf);
  return held ? static_cast<int64_t>(held->content.size()) : 0;
}
