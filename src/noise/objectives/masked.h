#pragma once
// Masked diffusion with random times, as mdlm, llada_sft, bd3lm and dream share it: every trainable token is masked with
// probability 1 - alpha(t), the loss counts masked tokens. They differ in who has a time of its own, in weights and rows.

#include "noise/objectives/table.h"
#include "noise/times.h"
#include "noise/token_ce.h"

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
  std::vector<std::string> raw_arrays() const override {
    return {"positions", "limit", "mask", "keys", "t"};
  }
  // Fails with invalid_argument for options that exclude each other.
  MaskedDiffusion(std::string name, ScheduleRef schedule, const Options& options);

  // The weights and the norm of the NELBO.
  bool is_nelbo() const;
  bool jax() const { return options_.str("compat") == "dllm-jax"; }
  bool reference() const { return jax() || options_.str("compat") == "dllm"; }

  // Neighbouring tokens of one time: the whole row, unless an objective has shorter blocks.
  virtual int64_t tokens_per_time(int64_t seq, const PrepareContext& /*context*/) const {
    return seq;
  }
  // Weights (seq) of the row's tokens, of which the masked ones (target 0 or more) count; empty: those of their times.
  virtual std::vector<double> row_weights(const TokenRows& /*rows*/, int64_t /*row*/,
                                          std::span<const int32_t> /*targets*/) const {
    return {};
  }
  // Least and largest probability of a mask at this step.
  virtual std::pair<double, double> mask_ratio_bounds(int64_t /*step*/,
                                                      const PrepareContext& /*context*/) const {
    return {options_.f64("min_mask_ratio"), options_.f64("max_mask_ratio")};
  }
  double mask_probability(double t, std::pair<double, double> bounds) const;
  // False: a row without trainable tokens is not counted where loss_norm counts rows.
  virtual bool counts_empty_rows() const { return true; }
  // The last step of prepare: `source` with the arrays of the loss.
  virtual Batch finished(const TokenCeArrays& made, const Batch& source) const {
    return made.added_to(source);
  }

private:
  struct Draws {
    std::vector<float> time; // uniform, (batch, times)
    std::vector<float> mask; // uniform, (batch, seq)
  };
  // Where the noise of a batch comes from, and how its rows are cut.
  struct Noise {
    Draws draws;
    std::span<const float> given; // times of the batch itself; empty: none
    int64_t times = 1;            // of a row
    int64_t tokens = 1;           // of one time
    int32_t mask = 0;
    bool first_is_given = false;
    std::pair<double, double> bounds; // mask_ratio_bounds
  };
  Draws own_draws(const TokenRows& rows, int64_t times, std::pair<int64_t, int64_t> global,
                  uint64_t seed, int64_t step) const;
  Draws jax_draws(const TokenRows& rows, int64_t times, uint64_t seed, int64_t step,
                  const PrepareContext& context) const;
  void corrupt_row(const TokenRows& rows, int64_t row, const Noise& noise,
                   TokenCeArrays* made) const;
  double loss_weight(double t) const;

  std::string name_;
  TimeSampler times_;
};

// time_options(), loss_weight, max_weight, loss_norm, min_mask_ratio, max_mask_ratio, and those that every objective has.
std::vector<OptionSpec> masked_options();
// The same row of options with another default. Fails with internal for a key that is not there.
OptionSpec& option_of(std::vector<OptionSpec>& rows, const std::string& key);

} // namespace dllm::noise
