#pragma once
#include "check.h"
#include "dllm/trainer.h"
#include "guard.h"
#include "train/trainer.h"

struct dllm_trainer : dllm::abi::Handle<dllm::abi::Kind::trainer> {
  dllm_trainer(std::shared_ptr<dllm::model::Model> model, dllm::noise::ObjectiveRef objective,
               const dllm::Options& options)
      : object(std::move(model), std::move(objective), options) {}
  dllm::train::Trainer object;
};
