// The random numbers of a batch that objectives share: keys, draws, and draws that the batch holds.

#include "base/error.h"
#include "noise/objectives/table.h"
#include "tensor/batch.h"

namespace dllm::noise {

void check_unit(const char* name, const Tensor& values) {
  const auto all = values.as<float>();
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i] >= 0.0f && all[i] <= 1.0f) continue;
    fail(Code::invalid_argument, "{}{} = {} is not in 0 to 1", name,
         place_text(values.shape(), static_cast<int64_t>(i)), all[i]);
  }
}

Key reference_batch_key(uint64_t seed, int64_t step, const PrepareContext& context) {
  if (context.batch_key) return *context.batch_key;
  Key running = make_key(seed), batch_key;
  for (int64_t i = 0; i <= step; ++i) {
    const std::vector<Key> two = split(running, 2);
    running = two[0];
    batch_key = two[1];
  }
  return batch_key;
}

void set_timesteps(Batch& batch, const Tensor& t, const PrepareContext& context) {
  if (context.time_steps <= 0 || batch.has("timesteps")) return;
  Tensor steps = t.clone();
  for (float& time : steps.mutable_as<float>()) time *= static_cast<float>(context.time_steps);
  batch.set("timesteps", steps);
}

std::vector<float> mask_draws(int64_t batch, int64_t width, int64_t first_row, uint64_t seed,
                              int64_t step) {
  std::vector<float> draws;
  draws.reserve(static_cast<size_t>(batch * width));
  for (int64_t b = 0; b < batch; ++b) {
    const Key key = stream_key(seed, Stream::mask, static_cast<uint64_t>(step),
                               static_cast<uint64_t>(first_row + b));
    for (int64_t i = 0; i < width; ++i)
      draws.push_back(uniform_from_bits(random_bits_at(key, static_cast<uint64_t>(i))));
  }
  return draws;
}

void inject_draws(const Batch& batch, const char* name, std::vector<float>& draws) {
  const Tensor* given = batch.find(name);
  if (given == nullptr) return;
  if (given->count() != static_cast<int64_t>(draws.size())) {
    fail(Code::invalid_argument, "array {} has {} draws, expected {}", name, given->count(),
         draws.size());
  }
  const Tensor values = given->to(DType::f32);
  check_unit(name, values);
  draws.assign(values.as<float>().begin(), values.as<float>().end());
}

} // namespace dllm::noise
