#pragma once
#include "base/json.h"
#include "check.h"
#include "dllm/buffer.h"
#include "guard.h"

struct dllm_buffer : dllm::abi::Handle<dllm::abi::Kind::buffer> {
  std::string content;
};

namespace dllm::abi {

// Replaces the content of the caller's buffer; the last thing a call does.
inline void fill(dllm_buffer* out, std::string text, const char* name = "out") {
  need(out, name).content = std::move(text);
}

// The same of JSON. Bytes of foreign files that are no UTF-8 become U+FFFD.
void fill_json(dllm_buffer* out, const Json& json, const char* name = "out");

}  // namespace dllm::abi
