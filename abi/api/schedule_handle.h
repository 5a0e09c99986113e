#pragma once
#include "check.h"
#include "dllm/schedule.h"
#include "guard.h"
#include "noise/schedule.h"

struct dllm_schedule : dllm::abi::Handle<dllm::abi::Kind::schedule> {
  explicit dllm_schedule(dllm::noise::ScheduleRef held) : object(std::move(held)) {}
  dllm::noise::ScheduleRef object;
};
