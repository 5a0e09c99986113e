#pragma once
// Draws of jax.random that the library does not offer, made of its bits and uniform numbers: they are what others make of
// the same key.

#include "base/random.h"
#include "tensor/tensor.h"

#include <string>

namespace dllm::parity {

// What a draw reads from the golden file.
struct DrawTables {
  Tensor logits;   // f32(rows, choices): of categorical
  Tensor row_odds; // f32(rows): of bernoulli.rows
};

// jax.random.normal: the quantile of a uniform number in (-1, 1).
Tensor normal_numbers(Key key, const Shape& shape, CounterLayout layout);
// An array of this kind ("gumbel", "permutation", ...); false: no such kind.
bool derived_draw(const std::string& kind, Key key, const Shape& shape, CounterLayout layout,
                  const DrawTables& tables, Tensor* made);

} // namespace dllm::parity
