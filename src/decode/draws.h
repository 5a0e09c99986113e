#pragma once
// Where the random numbers of a request come from. By default from its seed, by key; tests that
// replay recorded draws of a reference put their own in place.

#include <cstdint>
#include <span>

namespace dllm::decode {

struct Slot;

class DrawSource {
public:
  virtual ~DrawSource() = default;
  // A number in [0, 1) for a position in the coming step. word 0 draws the token, word 1 is the
  // policy's, words from 2 on are its further ones.
  virtual float uniform(const Slot& slot, int64_t position, int word) const = 0;
  // Adds to logits / temperature, one number per token; the token with the largest sum is drawn.
  virtual bool has_noise() const { return false; }
  virtual void noise(const Slot&, int64_t /*position*/, std::span<float> /*per_token*/) const {}
};

} // namespace dllm::decode
