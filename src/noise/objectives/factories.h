#pragma once
// One maker per objective; the table of noise/objective.cpp calls them. Options are of schema
// "objective:<name>".

#include "noise/objective.h"

namespace dllm::noise {

ObjectiveRef make_mdlm(ScheduleRef schedule, const Options& options);
ObjectiveRef make_ar(ScheduleRef schedule, const Options& options);
ObjectiveRef make_nano(ScheduleRef schedule, const Options& options);
ObjectiveRef make_token_ce(ScheduleRef schedule, const Options& options);

std::vector<OptionSpec> mdlm_keys();
std::vector<OptionSpec> ar_keys();
std::vector<OptionSpec> nano_keys_of_objective();
std::vector<OptionSpec> token_ce_keys();

// attention, shift, block_length, mask_id, compat: every objective has them.
std::vector<OptionSpec> shared_objective_keys();

// What corrupting objectives share: the loss token_ce, and a mask token.
class MaskingObjective : public Objective {
public:
  bool needs_mask_id() const override { return true; }
  model::AttentionKind attention(const model::ModelConfig& config) const override;

protected:
  using Objective::Objective;
  // The mask token of a batch, or failed_precondition with the choices a caller has.
  int32_t mask_id(const PrepareContext& context) const;
};

// Draws of the batch itself (array `name`, f32, as many) take the place of ours: tests and scripts
// know their noise then.
void inject_draws(const Batch& batch, const char* name, std::vector<float>& draws);

// Fails with invalid_argument unless 0 <= x <= 1 for all of an f32 array.
void check_unit(const char* name, const Tensor& values);

// Arrays that prepare adds, all zero but targets, which are -1.
struct TokenCeArrays {
  TokenCeArrays(int64_t batch, int64_t seq, std::span<const int32_t> clean);
  // `batch` with these in place of its own.
  Batch added_to(const Batch& batch) const;

  Tensor ids, targets, weights, normalizer, t;
};

} // namespace dllm::noise
