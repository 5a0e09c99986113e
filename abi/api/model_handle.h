#pragma once
#include "check.h"
#include "dllm/model.h"
#include "guard.h"
#include "model/model.h"

struct dllm_model : dllm::abi::Handle<dllm::abi::Kind::model> {
  explicit dllm_model(std::shared_ptr<dllm::model::Model> held) : object(std::move(held)) {}
  std::shared_ptr<dllm::model::Model> object;
};
