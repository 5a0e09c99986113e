#pragma once
// What a method makes of its options and its model, once; and the program of a decoder over a config,
// for plans: the one that PassProgram or, where the decoder would take the steps of a block in one
// launch, LoopProgram would compile.

#include "base/options.h"
#include "decode/pass/settings.h"
#include "decode/request/policy.h"
#include "decode/request/request.h"
#include "graph/engine.h"
#include "model/config.h"
#include "model/model.h"
#include "model/plan.h"
#include "noise/schedule.h"

#include <cstdint>
#include <memory>
#include <string>

namespace dllm::decode {

// What open positions hold: any token where the policy does not show it to the model. Fails with
// failed_precondition when it does and there is no mask token.
int32_t mask_id_of(const model::Model& model, const Policy& policy);
// The keys that were set, as options of the policy's own kind.
Options policy_options(const Options& given);
// The same with what the options of a request ("slot") set instead: steps, block_length, suppress.
Options request_options(const Options& given, const Options& of_request);
// Kind and keys that were set, with their values: equal for options that mean the same.
std::string text_of(const Options& options);
noise::ScheduleRef schedule_of(const Options& options);
// The attention option's grid, else the model's.
AttentionSpan attention_span_of(const model::ModelConfig& config, const Options& options);
// Of a canvas.
int64_t most_positions(const model::ModelConfig& config, const Options& options);
// References into all three are kept.
PolicySetup policy_setup(const model::Model& model, const Options& options,
                         const noise::Schedule& schedule);
PassSettings pass_settings(const model::Model& model, const Options& options, const Policy& policy);

// Options of kind "plan": batch, length, window, dtype, policy, loop. what = decode: a denoising
// step of every row, on the whole canvas or on a window (a block) over a cache; prefill: a pass
// over a prompt of `length` that fills the cache.
model::Job decoding_job(const std::shared_ptr<graph::Engine>& engine,
                        const model::ModelConfig& config, const Options& options);

} // namespace dllm::decode
