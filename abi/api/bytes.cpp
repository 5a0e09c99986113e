// Implements dllm/buffer.h and dllm/source.h.

#include "handles.h"

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

using namespace dllm;

dllm_status dllm_source_new(dllm_source** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    *out = new dllm_source;
  });
}

void dllm_source_release(dllm_source* source) {
  release(source);
}

dllm_status dllm_source_add(dllm_source* source, const char* name, const void* data, int64_t size,
                            int32_t lend, dllm_error* err) {
  return guard(err, [&] {
    MemorySource& object = *need(source, "source").object;
    const auto bytes = need_array(static_cast<const std::byte*>(data), size, "data");
    if (lend != 0 && lend != 1) fail(Code::invalid_argument, "lend is {}, not 0 or 1", lend);
    const std::string_view file = need_text(name, "name");
    if (file.find('/') != std::string_view::npos) {
      fail_with_hint("give the name of the file without its folder", Code::invalid_argument,
                     "name \"{}\" has a folder part", file);
    }
    object.add(std::string(file), bytes.data(), bytes.size(), lend == 0);
  });
}
