#pragma once
#include "base/task.h"
#include "check.h"
#include "dllm/task.h"
#include "guard.h"

struct dllm_task : dllm::abi::Handle<dllm::abi::Kind::task> {
  dllm::Task object;
};

namespace dllm::abi {

inline Task* task_of(dllm_task* task) {
  dllm_task* living = optional(task, "task");
  return living == nullptr ? nullptr : &living->object;
}

}  // namespace dllm::abi
