#pragma once
#include "check.h"
#include "dllm/batch.h"
#include "guard.h"
#include "tensor/batch.h"

struct dllm_batch : dllm::abi::Handle<dllm::abi::Kind::batch> {
  dllm_batch() = default;
  explicit dllm_batch(dllm::Batch held) : object(std::move(held)) {}
  dllm::Batch object;
};
