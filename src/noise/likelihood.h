#pragma once
// How likely a model finds an answer behind a prompt: a Monte Carlo bound of log p(answer | prompt) (LLaDA, Nie et al. 2025,
// algorithm 3). A sample masks k of the n tokens of the answer, never of the prompt, and counts n / k times the cross
// entropy of those; the mean over k = 1 ... n and over which tokens is the bound.

#include "base/task.h"
#include "model/model.h"
#include "noise/evaluate.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace dllm::noise {

struct LikelihoodSettings {
  int64_t samples = 128; // in groups; the last group is whole too
  int64_t group =
      16; // samples whose numbers of masked tokens are spread evenly over 1 ... n; one pass
  uint64_t seed = 0;
};

// In nats.
struct AnswerLikelihood {
  double log_likelihood = 0; // mean over groups
  double standard_error = 0; // of it, over groups; 0 for one group
  int64_t tokens = 0;        // of the answer
  int64_t samples = 0;
};

// The choices of one group: for each sample its number of masked tokens, and a permutation of 0 ... n - 1; a token is masked
// where its entry is below that number.
struct LikelihoodGroup {
  std::vector<int64_t> masked;
  std::vector<std::vector<int32_t>> permutations;
};
// Numbers of masked tokens that are spread evenly, from `first` (1 to tokens) on.
std::vector<int64_t> spread_counts(int64_t first, int64_t tokens, int64_t samples);
// Of (seed, row, group) alone.
LikelihoodGroup draw_group(const LikelihoodSettings& settings, int64_t row, int64_t group,
                           int64_t tokens);

// Keeps the compiled programs. One call at a time; keeps the model alive.
class LikelihoodRunner {
public:
  // Fails with failed_precondition for a model without a mask token.
  explicit LikelihoodRunner(std::shared_ptr<model::Model> model);

  // row: number of this answer among all, so that any cut of a data set draws the same. Fails with invalid_argument for an
  // empty answer, for ids outside of the vocabulary, for rows longer than the model allows and, where the hidden state
  // before a token predicts it (shift 1), for an empty prompt.
  AnswerLikelihood run(std::span<const int32_t> prompt, std::span<const int32_t> answer,
                       const LikelihoodSettings& settings, int64_t row = 0,
                       const Task* task = nullptr);
  // One group with the choices of the caller: the bound in nats.
  double run_group(std::span<const int32_t> prompt, std::span<const int32_t> answer,
                   const LikelihoodGroup& group, const Task* task = nullptr);

private:
  int32_t mask_;
  LossRunner losses_;
};

} // namespace dllm::noise
