#pragma once
// What a decoder makes of its options and its model, once.

#include "base/options.h"
#include "decode/request/policy.h"
#include "decode/step_program.h"
#include "model/model.h"
#include "noise/schedule.h"

#include <cstdint>
#include <string>

namespace dllm::decode {

// What open positions hold: any token where the policy does not show it to the model. Fails with
// failed_precondition when it does and there is no mask token.
int32_t mask_id_of(const model::Model& model, const Policy& policy);
// The keys that were set, as options of the policy's own kind.
Options policy_options(const Options& given);
noise::ScheduleRef schedule_of(const Options& options);
// The attention option's grid, else the model's.
AttentionSpan attention_span_of(const model::ModelConfig& config, const Options& options);
// Of a canvas.
int64_t most_positions(const model::ModelConfig& config, const Options& options);
// References into all three are kept.
PolicySetup policy_setup(const model::Model& model, const Options& options,
                         const noise::Schedule& schedule);
StepSettings step_settings(const model::Model& model, const Options& options, const Policy& policy);

} // namespace dllm::decode
