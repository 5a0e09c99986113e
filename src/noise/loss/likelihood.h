#pragma once
// Estimates the likelihood of an answer after a prompt: a Monte Carlo bound of log p(answer |
// prompt) (LLaDA, Nie et al. 2025, algorithm 3). A sample masks k of the n tokens of the answer,
// never of the prompt. Its value is n / k times the cross entropy of the masked tokens. The bound
// is the mean over k = 1 ... n and over the choice of tokens.

#include "base/task.h"
#include "model/model.h"
#include "noise/loss/evaluate.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace dllm::noise {

struct LikelihoodSettings {
  int64_t samples = 128; // drawn in groups; the last group is complete too
  // Samples per forward pass. Their numbers of masked tokens are spread evenly over 1 ... n.
  int64_t group = 16;
  uint64_t seed = 0;
};

// The estimate, in nats.
struct AnswerLikelihood {
  double log_likelihood = 0; // mean over groups
  double standard_error = 0; // of log_likelihood, over groups; 0 for one group
  int64_t tokens = 0;        // tokens of the answer
  int64_t samples = 0;
};

// The random choices of one group. Each sample has its number of masked tokens and a permutation of
// 0 ... n - 1. A token is masked where its entry is less than that number.
struct LikelihoodGroup {
  std::vector<int64_t> masked;
  std::vector<std::vector<int32_t>> permutations;
};
// Returns numbers of masked tokens that are spread evenly, beginning with `first` (1 to tokens).
std::vector<int64_t> spread_counts(int64_t first, int64_t tokens, int64_t samples);
// Draws the choices of a group. They depend on (seed, row, group) alone.
LikelihoodGroup draw_group(const LikelihoodSettings& settings, int64_t row, int64_t group,
                           int64_t tokens);

// Computes likelihoods. It keeps the compiled programs and the model alive. One call at a time.
class LikelihoodRunner {
public:
  // Fails with failed_precondition for a model without a mask token.
  explicit LikelihoodRunner(std::shared_ptr<model::Model> model);

  // Returns the likelihood of an answer. `row` is the number of the answer in the data set, so that
  // any cut of the data set draws the same choices. Fails with invalid_argument for an empty
  // answer, an id outside of the vocabulary, or a row longer than the model allows. With shift 1 it
  // also fails for an empty prompt.
  AnswerLikelihood run(std::span<const int32_t> prompt, std::span<const int32_t> answer,
                       const LikelihoodSettings& settings, int64_t row = 0,
                       const Task* task = nullptr);
  // Returns the bound of one group, in nats, with the choices of the caller.
  double run_group(std::span<const int32_t> prompt, std::span<const int32_t> answer,
                   const LikelihoodGroup& group, const Task* task = nullptr);

private:
  int32_t mask_;
  LossRunner losses_;
};

} // namespace dllm::noise
