#pragma once
#include "check.h"
#include "dllm/engine.h"
#include "graph/engine.h"
#include "guard.h"

#include <vector>

struct dllm_engine : dllm::abi::Handle<dllm::abi::Kind::engine> {
  explicit dllm_engine(std::shared_ptr<dllm::graph::Engine> made) : object(std::move(made)) {
    for (int64_t i = 0; i < object->device_count(); ++i) device_names.push_back(object->device_name(i));
  }
  std::shared_ptr<dllm::graph::Engine> object;
  std::vector<std::string> device_names;  // returned by dllm_engine_device_name
};
