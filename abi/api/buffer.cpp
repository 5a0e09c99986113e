#include "buffer_handle.h"

#include <nlohmann/json.hpp>

using namespace dllm::abi;

void dllm::abi::fill_json(dllm_buffer* out, const Json& json, const char* name) {
  fill(out, json.dump(-1, ' ', false, Json::error_handler_t::replace), name);
}

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
