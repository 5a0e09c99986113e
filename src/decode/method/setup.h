#pragma once
// These functions make the settings of a method from its options and its model, and the program of
// a decoder for plans.

#include "base/options.h"
#include "decode/pass/settings.h"
#include "decode/request/policy.h"
#include "decode/request/request.h"
#include "graph/engine.h"
#include "model/config.h"
#include "model/model.h"
#include "model/plan.h"
#include "noise/schedules/schedule.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dllm::decode {

// Returns the token that open positions hold: the model's mask token, or 0 if there is none. Fails
// with failed_precondition if there is none and the policy shows open positions to the model.
int32_t mask_id_of(const model::Model& model, const Policy& policy);
// Returns the options that were set, as options of the policy's own kind.
Options policy_options(const Options& given);
// Returns the same, with the options of a request (kind "slot") that replace or extend them: steps,
// block_length, suppress, adapters.
Options request_options(const Options& given, const Options& of_request);
// Returns the kind, and the keys that were set with their values. Equal for options that mean the
// same.
std::string text_of(const Options& options);
// Returns the schedule that the options name, for a model of this config.
noise::ScheduleRef schedule_of(const Options& options, const model::ModelConfig& config);
// Returns the span of option attention; auto: of the model's attention.
AttentionSpan attention_span_of(const model::ModelConfig& config, const Options& options);
// Returns the most positions of a canvas.
int64_t most_positions(const model::ModelConfig& config, const Options& options);
// Fails with out_of_range if a canvas of `length` positions is longer than that.
void check_length(const model::ModelConfig& config, const Options& options, int64_t length);
// Returns the inputs of a policy. It keeps references to all three arguments.
PolicySetup policy_setup(const model::Model& model, const Options& options,
                         const noise::Schedule& schedule);
// Returns (vocab): 1 for the tokens that are never drawn under these options.
std::vector<uint8_t> banned_tokens(const model::Model& model, const Options& options);
PassSettings pass_settings(const model::Model& model, const Options& options, const Policy& policy);

// Returns the program that a decoder would compile (PassProgram or LoopProgram), its cache and its
// weights. options: of kind "plan" (batch, length, window, dtype, policy, loop). what = decode: a
// denoising step of every row on the whole canvas, or on a window (a block) over a cache. what =
// prefill: a pass over a prompt of `length` positions that fills the cache. in_files: the formats
// for dtype auto.
model::Job decoding_job(const std::shared_ptr<graph::Engine>& engine,
                        const model::ModelConfig& config, const Options& options,
                        const model::FormOf& in_files = nullptr);

} // namespace dllm::decode
