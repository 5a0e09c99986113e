#pragma once
// Inputs that are mixtures of tokens. A curriculum of uniform noise adds their arrays to a batch,
// and a graph computes the embeddings from these arrays.

#include "model/network/builder.h"
#include "noise/objective.h"
#include "noise/schedules/gaussian_noise.h"

#include <span>

namespace dllm::noise {

class SoftRows {
public:
  // Makes an object without rows, which adds no array, when batch is 0.
  SoftRows(int64_t batch, int64_t seq);
  void set_alpha(size_t row, double alpha) {
    alpha_.mutable_as<float>()[row] = static_cast<float>(alpha);
  }
  // Sets the input at index `at` of (batch, seq) to the sum over k of weights[k] E(ids[k]).
  void set(size_t at, std::span<const int32_t> ids, std::span<const float> weights);
  // Adds "alpha" f32(batch), "soft_ids" i32 and "soft_weights" f32(batch, seq, kSoftTokens), and
  // "soft_on" u8(batch, seq).
  void add_to(Batch& batch) const;

  // Returns alpha by row of a prepared batch; null: the batch has no mixtures.
  static const Tensor* alpha_of(const Batch& prepared) { return prepared.find("alpha"); }
  // Copies the arrays that a graph reads from a prepared batch that has mixtures.
  static void feed(const Batch& prepared, Batch& made);
  // Returns f32(batch, seq, hidden): the mixtures, and at other positions the embeddings of the
  // ids. Undefined when no mixtures were fed.
  static graph::Value embeddings(model::Builder& builder, const LossInputs& inputs);

private:
  Tensor alpha_, ids_, weights_, on_;
};

} // namespace dllm::noise
