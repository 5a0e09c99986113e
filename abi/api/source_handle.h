#pragma once
#include "base/input_file.h"
#include "check.h"
#include "dllm/source.h"
#include "guard.h"

struct dllm_source : dllm::abi::Handle<dllm::abi::Kind::source> {
  std::shared_ptr<dllm::MemorySource> object = std::make_shared<dllm::MemorySource>();
};
