#pragma once
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

}  // namespace dllm::abi
