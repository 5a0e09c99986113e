#include "buffer_handle.h"

using namespace dllm::abi;

dllm_buffer* dllm_buffer_new(void) {
  return guard_value<dllm_buffer*>(nullptr, [] { return new dllm_buffer; });
}

void dllm_buffer_release(dllm_buffer* buf) {
  if (usable(buf)) delete buf;
}

const void* dllm_buffer_data(const dllm_buffer* buf) { return usable(buf) ? buf->content.c_str() : nullptr; }

int64_t dllm_buffer_size(const dllm_buffer* buf) {
  return usable(buf) ? static_cast<int64_t>(buf->content.size()) : 0;
}
