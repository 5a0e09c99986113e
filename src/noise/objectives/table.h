#pragma once
// The parts that objectives share, and the table of all objectives. A new one is its file in this
// folder, and its name twice here.

#include "noise/objective.h"

#include <span>

namespace dllm::noise {

// Returns attention, shift, block_length, mask_id and compat, which every objective has.
std::vector<OptionSpec> shared_objective_options();

// The base of corrupting objectives: it has the loss token_ce and needs a mask token.
class MaskingObjective : public Objective {
public:
  bool needs_mask_id() const override { return true; }
  model::AttentionKind attention(const model::ModelConfig& config) const override;

protected:
  using Objective::Objective;
  // Returns the mask token of a batch. Fails with failed_precondition and the ways to set one.
  int32_t mask_id(const PrepareContext& context) const;
};

// Returns the key of this batch for compat = dllm-jax, where the trainer's key splits once per
// prepared batch.
Key reference_batch_key(uint64_t seed, int64_t step, const PrepareContext& context);

// Sets timesteps (batch) of a time-conditioned model: the times t (batch) in its steps.
void set_timesteps(Batch& batch, const Tensor& t, const PrepareContext& context);

// Returns one uniform number for each of `width` columns of each row. The first row has the global
// number first_row. Each row has a key of its own (seed, stream, step, global row), so a batch may
// be cut anywhere.
std::vector<float> mask_draws(int64_t batch, int64_t width, int64_t first_row, uint64_t seed,
                              int64_t step);

// Replaces drawn numbers by array `name` of the batch, f32 of the same length, so that tests and
// scripts choose the noise.
void inject_draws(const Batch& batch, const char* name, std::vector<float>& draws);

// Fails with invalid_argument unless 0 <= x <= 1 for every x of an f32 array.
void check_unit(const char* name, const Tensor& values);

// The arrays that prepare adds. All are 0, except that targets are -1.
struct TokenCeArrays {
  TokenCeArrays(int64_t batch, int64_t seq, std::span<const int32_t> clean);
  // Returns `batch` with these arrays in place of its own.
  Batch added_to(const Batch& batch) const;

  Tensor ids, targets, weights, normalizer, t;
};

// A row of the table has the name, the default schedule and the rows of the schema
// "objective:<name>". It also has a maker for options of that schema, and the facts for programs.
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
ObjectiveEntry cola();
ObjectiveEntry diffusion_gemma();
ObjectiveEntry dmax();
ObjectiveEntry dream();
ObjectiveEntry editflow();
ObjectiveEntry embedding();
ObjectiveEntry grpo();
ObjectiveEntry ldlm();
ObjectiveEntry llada_sft();
ObjectiveEntry mdlm();
ObjectiveEntry nano();
ObjectiveEntry open_dllm();
ObjectiveEntry token_ce();
ObjectiveEntry uniform();
ObjectiveEntry vfm();

inline constexpr ObjectiveEntry (*kTable[])() = {
    ar,        bd3lm, cola, diffusion_gemma, dmax,     dream,   editflow, embedding, grpo, ldlm,
    llada_sft, mdlm,  nano, open_dllm,       token_ce, uniform, vfm,
};

} // namespace objective_files
} // namespace dllm::noise
