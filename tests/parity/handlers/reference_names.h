#pragma once
// What the references call things, in our words. Shared by the handlers of schedules, losses and
// training runs.

#include "base/json.h"
#include "noise/objective.h"
#include "noise/schedule.h"
#include "tensor/batch.h"

#include <string>

namespace dllm::parity {

// "LinearAlphaScheduler", "CubicKappaScheduler" ...; parameters a, b where the reference has them.
// Fails with unimplemented for a class we do not know.
noise::ScheduleRef reference_schedule(const std::string& class_name, const Json& parameters,
                                      const std::string& compat);
// nano-dlm's kind, T and eps of a case.
noise::ScheduleRef nano_schedule(const Json& entry);

// The objective mdlm with the settings of a case or run (loss_weight_type, loss_norm_type,
// right_shift_logits, ...).
noise::ObjectiveRef reference_mdlm(const Json& settings, const std::string& compat);

// A padding mask (batch, keys) of the reference: 1 = visible. jax_square: a square one is read as
// (queries, keys), its defect (golden README, "ambiguous_square").
void set_padding(Batch& batch, const Tensor& mask, bool jax_square);

} // namespace dllm::parity
