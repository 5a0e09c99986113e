#pragma once
#include "check.h"
#include "dllm/tokenizer.h"
#include "guard.h"
#include "text/tokenizer.h"

struct dllm_tokenizer : dllm::abi::Handle<dllm::abi::Kind::tokenizer> {
  explicit dllm_tokenizer(std::shared_ptr<const dllm::text::Tokenizer> held) : object(std::move(held)) {}
  std::shared_ptr<const dllm::text::Tokenizer> object;
};
