#pragma once
// Masked diffusion with random times, the base of mdlm, llada_sft, bd3lm and dream. Every trainable
// token is masked with probability 1 - alpha(t), and the loss counts masked tokens. The objectives
// differ in the tokens that share a time, in weights and in rows.

#include "noise/loss/token_ce.h"
#include "noise/objectives/table.h"
#include "noise/rows/text_counts.h"
#include "noise/rows/times.h"
#include "noise/rows/trajectory_masks.h"

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace dllm::noise {

class MaskedDiffusion : public MaskingObjective {
public:
  const std::string& name() const override { return name_; }
  bool keyed_by_batch() const override { return jax(); }
  bool spreads_over_rows() const override;
  Batch prepare_rows(const Batch& batch, uint64_t seed, int64_t step,
                     const PrepareContext& context) const override;
  Json describe() const override;

protected:
  std::vector<std::string> raw_arrays() const override;
  // trajectories: chooses the masks of rows with array "trajectory"; not set: the objective does
  // not read that array. Fails with invalid_argument for options that exclude each other.
  MaskedDiffusion(std::string name, ScheduleRef schedule, const Options& options,
                  std::optional<TrajectoryMasks> trajectories = {});

  // Returns true when the NELBO has these weights and this norm.
  bool is_nelbo() const;
  bool jax() const { return options_.str("compat") == "dllm-jax"; }
  bool reference() const { return jax() || options_.str("compat") == "dllm"; }

  // Returns the number of consecutive tokens that share a time: the whole row, unless an objective
  // has shorter blocks.
  virtual int64_t tokens_per_time(int64_t seq, const PrepareContext& /*context*/) const {
    return seq;
  }
  // Returns weights (seq) of the row's tokens. Masked tokens (target 0 or more) count. An empty
  // list means the weights of their times.
  virtual std::vector<double> row_weights(const TokenRows& /*rows*/, int64_t /*row*/,
                                          std::span<const int32_t> /*targets*/) const {
    return {};
  }
  // Returns the least and the largest mask probability of this step.
  virtual std::pair<double, double> mask_ratio_bounds(int64_t /*step*/,
                                                      const PrepareContext& /*context*/) const {
    return {options_.f64("min_mask_ratio"), options_.f64("max_mask_ratio")};
  }
  double mask_probability(double t, std::pair<double, double> bounds) const;
  // Array of a batch that is masked by trajectories, f32(batch): the ratio that the loss reads.
  static constexpr const char* kMaskRatio = "mask_ratio";
  // Returns false when loss_norm does not count a row, or a text, without trainable tokens.
  virtual bool counts_empty_rows() const { return true; }
  // Finishes prepare(): returns `source` with the arrays of the loss.
  virtual Batch finished(const TokenCeArrays& made, const Batch& source) const {
    return made.added_to(source);
  }

private:
  struct Draws {
    std::vector<float> time; // uniform, (batch, times)
    std::vector<float> mask; // uniform, (batch, seq)
  };
  // The source of the noise of a batch, and the division of its rows.
  struct Noise {
    Draws draws;
    std::span<const float> given; // times that the batch holds; empty: none
    int64_t times = 1;            // times per row
    int64_t tokens = 1;           // tokens per time
    int32_t mask = 0;
    std::pair<double, double> bounds; // mask_ratio_bounds
    // Of rows that are masked by trajectories, with the ratio that the loss reads; empty: none.
    std::vector<TrajectoryChoice> chosen;
  };
  struct Counts {
    int64_t trainable = 0, masked = 0; // tokens of a row
  };
  Draws own_draws(const TokenRows& rows, int64_t times, std::pair<int64_t, int64_t> global,
                  uint64_t seed, int64_t step) const;
  Draws jax_draws(const TokenRows& rows, int64_t times, uint64_t seed, int64_t step,
                  const PrepareContext& context) const;
  void corrupt_row(const TokenRows& rows, int64_t row, const Noise& noise,
                   TokenCeArrays* made) const;
  TextCounts texts_of(const TokenRows& rows, int64_t row, const Noise& noise,
                      int64_t trainable) const;
  Counts mask_by_times(const TokenRows& rows, int64_t row, const Noise& noise,
                       TokenCeArrays* made) const;
  Counts mask_by_trajectory(const TokenRows& rows, int64_t row, const Noise& noise,
                            TokenCeArrays* made) const;
  std::vector<TrajectoryChoice> chosen_masks(const TokenRows& rows, const Tensor& trajectory,
                                             const Noise& noise, float jitter, int64_t step) const;
  double loss_weight(double t, double density) const;

  std::string name_;
  TimeSampler times_;
  std::optional<TrajectoryMasks> trajectories_;
};

// Returns time_options(), loss_weight, max_weight, loss_norm, min_mask_ratio, max_mask_ratio, and
// the options of every objective.
std::vector<OptionSpec> masked_options();
// Returns the same with trajectory_options(), for objectives that read array "trajectory".
std::vector<OptionSpec> masked_row_options();
// Returns the option `key` of `rows`, to change its default. Fails with internal for an unknown
// key.
OptionSpec& option_of(std::vector<OptionSpec>& rows, const std::string& key);

} // namespace dllm::noise
