#pragma once
// Draws of jax.random that the library does not offer, made of its bits and uniform numbers: they
// are what others make of the same key.

#include "base/random.h"
#include "tensor/tensor.h"

#include <string>
#include <vector>

namespace dllm::parity {

// What a draw reads from the golden files.
struct DrawInputs {
  Tensor logits;   // f32(rows, choices): of categorical
  Tensor row_odds; // f32(rows): of bernoulli.rows
  // Of uniform_range: minval, maxval; bernoulli.scalar: p; choice_no_replace: n; truncated_normal:
  // lower, upper.
  std::vector<double> numbers;
};

// The numbers of a draw as cases.json writes it: "uniform(key,(6,),minval=-2.5,maxval=4.0)" has
// -2.5 and 4, the key and shapes are left out.
std::vector<double> numbers_of_draw(const std::string& text);

// jax.random.normal: the quantile of a uniform number in (-1, 1).
Tensor normal_numbers(Key key, const Shape& shape, CounterLayout layout);
// An array of this kind ("gumbel", "permutation", ...); false: no such kind.
bool derived_draw(const std::string& kind, Key key, const Shape& shape, CounterLayout layout,
                  const DrawInputs& inputs, Tensor* made);

} // namespace dllm::parity
