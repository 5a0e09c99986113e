#pragma once
// What the references call things, in our words. Shared by the handlers of schedules, losses and
// training runs.

#include "base/json.h"
#include "noise/objective.h"
#include "noise/schedules/schedule.h"
#include "tensor/batch.h"

#include <string>

namespace dllm::parity {

// "LinearAlphaScheduler", "CubicKappaScheduler" ...; parameters a, b where the reference has them.
// Fails with unimplemented for a class we do not know.
noise::ScheduleRef reference_schedule(const std::string& class_name, const Json& parameters,
                                      const std::string& compat);
// nano-dlm's kind, T and eps of a case.
noise::ScheduleRef nano_schedule(const Json& entry);

// An objective of masked diffusion (mdlm, bd3lm, dream) with the settings of a case or run
// (loss_weight_type, loss_norm_type, right_shift_logits, block_size, ...).
noise::ObjectiveRef reference_objective(const std::string& name, const Json& settings,
                                        const std::string& compat);
// The objective dmax likewise (noise_range_low, on_policy_ratio, ...).
noise::ObjectiveRef reference_dmax(const Json& settings, const std::string& compat);
// (batch, columns, ...) of (batch, seq, ...): the noised half of two streams.
Tensor first_columns(const Tensor& rows, int64_t columns);

// A padding mask (batch, keys) of the reference: 1 = visible. jax_square: a square one is read as
// (queries, keys), its defect (golden README, "ambiguous_square").
void set_padding(Batch& batch, const Tensor& mask, bool jax_square);

} // namespace dllm::parity
