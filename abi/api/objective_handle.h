#pragma once
#include "check.h"
#include "dllm/objective.h"
#include "guard.h"
#include "noise/objective.h"

struct dllm_objective : dllm::abi::Handle<dllm::abi::Kind::objective> {
  explicit dllm_objective(dllm::noise::ObjectiveRef held) : object(std::move(held)) {}
  dllm::noise::ObjectiveRef object;
};
