#pragma once
// How an objective uses a mask filler (model/network/filler.h): the networks of a new one, the rows
// that have it, and its noise. Every objective over masked rows has these options.

#include "base/options.h"
#include "model/model.h"
#include "noise/objective_facts.h"
#include "noise/terms/term.h"
#include "tensor/batch.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dllm::noise {

struct Loss;

// Arrays of prepared rows: which rows have the filler f32(batch), keys of its noise u32(batch, 2),
// and the noise itself f32(batch, seq, hidden), which tests and scripts give.
inline constexpr const char* kFillerOn = "filler_on";
inline constexpr const char* kFillerKeys = "filler_keys";
inline constexpr const char* kFillerNoise = "filler_noise";
// i32(batch): given positions at the front, for a filler that reads the prompt.
inline constexpr const char* kFillerStart = "filler_start";

class FillerUse {
public:
  explicit FillerUse(const Options& options);
  static std::vector<OptionSpec> option_rows();

  // Returns true when the options name a filler. Otherwise the model's own one is used.
  bool is_named() const { return kind_ != model::FillerKind::none; }
  float gradient() const { return static_cast<float>(options_.f64("filler_grad_scale")); }

  // Return the settings and the networks of a new filler for a base of this config.
  // embedding_length: the mean length of its embeddings.
  model::FillerConfig settings(double embedding_length) const;
  std::map<std::string, Json> networks(const model::ModelConfig& base) const;
  // Adds the filler to a model that has none. Fails with invalid_argument when the model has one of
  // another kind, and when options of a filler are set for a model without one.
  void add_to(model::Model& model, uint64_t seed) const;
  // The same for the config of a plan.
  void add_to(model::ModelConfig& config) const;
  // Fails with invalid_argument for an attention under which the filler would show hidden tokens.
  void check(const model::ModelConfig& config, model::AttentionKind attention) const;

  // Adds the arrays of the filler to prepared rows. Held-out rows all have its mean.
  void prepare(Batch& prepared, const model::FillerConfig& filler, bool held_out,
               const TermDraws& draws) const;
  void feed(const Batch& prepared, const model::FillerConfig& filler, Batch& feed) const;

private:
  Json tower(const model::ModelConfig& base, int64_t hidden, int64_t layers, int64_t width) const;

  Options options_;
  model::FillerKind kind_; // none: the model's own
};

// Fails with invalid_argument for options of a filler that change nothing, and for an objective
// whose rows have no mask tokens.
void check_filler(const std::string& objective, RowKind rows, const Options& options);
// Adds the length of the filler's vectors to the parts of a loss.
void add_filler_parts(Loss& loss, const model::FilledMasks& filled);
// Returns the mean length of the rows of the embedding.
double embedding_length(const model::Model& model);

} // namespace dllm::noise
