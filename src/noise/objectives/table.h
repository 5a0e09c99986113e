#pragma once
// What objectives share, and the table of all: a new one is its file in this folder, and its name twice here.

#include "noise/objective.h"

#include <span>

namespace dllm::noise {

// attention, shift, block_length, mask_id, compat: every objective has them.
std::vector<OptionSpec> shared_objective_options();

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

// compat = dllm-jax: the trainer's key splits once for every prepared batch. The key of this one.
Key reference_batch_key(uint64_t seed, int64_t step, const PrepareContext& context);

// For a time-conditioned model: timesteps (batch), the times t (batch) in its steps.
void set_timesteps(Batch& batch, const Tensor& t, const PrepareContext& context);

// One uniform number for each of `width` columns of each row; the first row of all has number first_row. Each has a key of its
// own (seed, stream, step, global row), so a batch may be cut anywhere.
std::vector<float> mask_draws(int64_t batch, int64_t width, int64_t first_row, uint64_t seed,
                              int64_t step);

// Random numbers of the batch itself (array `name`, f32, as many) replace the drawn ones: so tests and scripts choose the
// noise.
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

// One objective: its name, the schedule it has by default, the rows of its schema
// "objective:<name>", a maker that takes options of that schema, and what a program must know of
// it.
struct ObjectiveEntry {
  std::string name;
  std::string schedule;
  std::vector<OptionSpec> options;
  ObjectiveRef (*make)(ScheduleRef, const Options&) = nullptr;
  ObjectiveFacts facts = {};
};
template <class T> ObjectiveRef new_objective(ScheduleRef schedule, const Options& options) {
  return std::make_shared<T>(std::move(schedule), options);
}

namespace objective_files {

ObjectiveEntry ar();
ObjectiveEntry bd3lm();
ObjectiveEntry diffusion_gemma();
ObjectiveEntry dmax();
ObjectiveEntry dream();
ObjectiveEntry editflow();
ObjectiveEntry grpo();
ObjectiveEntry llada_sft();
ObjectiveEntry mdlm();
ObjectiveEntry nano();
ObjectiveEntry open_dllm();
ObjectiveEntry token_ce();
ObjectiveEntry uniform();

inline constexpr ObjectiveEntry (*kTable[])() = {
    ar,   bd3lm, diffusion_gemma, dmax,     dream,   editflow, grpo, llada_sft,
    mdlm, nano,  open_dllm,       token_ce, uniform,
};

} // namespace objective_files
} // namespace dllm::noise
