#pragma once
// Inputs that are mixtures of tokens: the arrays of a batch that a curriculum of uniform noise adds, and the embeddings that
// a graph makes of them.

#include "model/builder.h"
#include "noise/gaussian_noise.h"
#include "noise/objective.h"

#include <span>

namespace dllm::noise {

class SoftRows {
public:
  // Of no row: no array is added.
  SoftRows(int64_t batch, int64_t seq);
  void set_alpha(size_t row, double alpha) {
    alpha_.mutable_as<float>()[row] = static_cast<float>(alpha);
  }
  // The input at this place of (batch, seq): sum over k of weights[k] E(ids[k]).
  void set(size_t at, std::span<const int32_t> ids, std::span<const float> weights);
  // "alpha" f32(batch), "soft_ids" i32 and "soft_weights" f32(batch, seq, kSoftTokens), "soft_on" u8(batch, seq).
  void add_to(Batch& batch) const;

  // alpha by row of a prepared batch; null: it has no mixtures.
  static const Tensor* alpha_of(const Batch& prepared) { return prepared.find("alpha"); }
  // The arrays that a graph reads, from a prepared batch that has them.
  static void feed(const Batch& prepared, Batch& made);
  // f32(batch, seq, hidden): mixtures where there are, else the embeddings of the ids. Undefined where nothing was fed.
  static graph::Value embeddings(model::Builder& builder, const LossInputs& inputs);

private:
  Tensor alpha_, ids_, weights_, on_;
};

} // namespace dllm::noise
