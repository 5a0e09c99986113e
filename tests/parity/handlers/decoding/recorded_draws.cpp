#include "handlers/decoding/recorded_draws.h"

#include "decode/request/request.h"

#include <cmath>

namespace dllm::parity {
namespace {

class RecordedDraws final : public decode::RandomSource {
public:
  RecordedDraws(Tensor gumbel, Tensor confidence)
      : gumbel_(std::move(gumbel)), confidence_(std::move(confidence)) {}

  // Policy random takes the smallest numbers, the reference the largest.
  float uniform(const decode::Request& slot, int64_t position, int word) const override {
    if (word == 0 || !confidence_.defined()) return 0.5f;
    const Tensor row = confidence_.row(slot.steps).row(0);
    return 1.0f - row.as<float>()[static_cast<size_t>(position)];
  }

  bool has_noise() const override { return gumbel_.defined(); }

  void noise(const decode::Request& slot, int64_t position,
             std::span<float> per_token) const override {
    const Tensor row = gumbel_.row(slot.steps).row(0).row(position);
    for (size_t i = 0; i < per_token.size(); ++i)
      per_token[i] = static_cast<float>(-std::log(-std::log(row.as<double>()[i])));
  }

private:
  Tensor gumbel_, confidence_;
};

} // namespace

std::shared_ptr<const decode::RandomSource> recorded_draws(Case& c) {
  Tensor gumbel, confidence;
  if (c.has("u_gumbel")) gumbel = c.array("u_gumbel");
  if (c.has("u_confidence")) confidence = c.array("u_confidence");
  if (!gumbel.defined() && !confidence.defined()) return nullptr;
  const Tensor& first = gumbel.defined() ? gumbel : confidence;
  if (first.shape()[1] != 1) c.skip("recorded draws of several rows are not supported yet");
  return std::make_shared<RecordedDraws>(gumbel, confidence);
}

} // namespace dllm::parity
