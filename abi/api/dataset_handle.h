#pragma once
#include "check.h"
#include "dllm/dataset.h"
#include "guard.h"
#include "text/dataset.h"

struct dllm_dataset : dllm::abi::Handle<dllm::abi::Kind::dataset> {
  explicit dllm_dataset(std::shared_ptr<dllm::text::Dataset> held) : object(std::move(held)) {}
  std::shared_ptr<dllm::text::Dataset> object;
};
