// Supervised fine-tuning of masked diffusion (Nie et al. 2025, LLaDA, section 2.3): prompts stay as they are (`keep`,
// labels -100), answers are masked, and each row's loss is divided by the length of its own answer:
//   loss = 1 / rows * sum over rows of 1 / length * sum over masked i of CE_i / t.
// With answer_padding the padding behind an answer is part of it: the model learns where to stop.

#include "noise/objectives/masked.h"

#include <algorithm>

namespace dllm::noise {

Batch padding_trained(const Batch& batch) {
  const Tensor* given = batch.find("segments");
  if (given == nullptr || given->shape().rank() != 2) return batch;
  Batch made = batch;
  Tensor segments = given->to(DType::i32).clone();
  const bool has_keep = batch.has("keep") && batch.at("keep").shape() == given->shape();
  Tensor keep = has_keep ? batch.at("keep").to(DType::u8).clone() : Tensor{};
  const auto seq = static_cast<size_t>(segments.shape()[1]);
  const auto ids = segments.mutable_as<int32_t>();
  for (size_t at = 0; at < ids.size(); ++at) {
    if (ids[at] != 0 || at % seq == 0) continue;
    ids[at] = ids[at - 1];
    if (has_keep && ids[at] != 0) keep.mutable_as<uint8_t>()[at] = 0;
  }
  made.set("segments", segments);
  if (has_keep) made.set("keep", keep);
  return made;
}

namespace {

class LladaSft final : public MaskedDiffusion {
public:
  LladaSft(ScheduleRef schedule, const Options& options)
      : MaskedDiffusion("llada_sft", std::move(schedule), options) {}

  Batch prepare_rows(const Batch& batch, uint64_t seed, int64_t step,
                     const PrepareContext& context) const override {
    const bool padding = options_.boolean("answer_padding");
    return MaskedDiffusion::prepare_rows(padding ? padding_trained(batch) : batch, seed, step,
                                         context);
  }

protected:
  bool counts_empty_rows() const override { return reference(); }
};

} // namespace

ObjectiveEntry objective_files::llada_sft() {
  std::vector<OptionSpec> keys = masked_options();
  option_of(keys, "loss_norm").default_value = std::string("sequence");
  keys.push_back(option_bool("answer_padding", false,
                             "Padding behind an answer is trained as part of it, as LLaDA does."));
  return {"llada_sft", "linear", std::move(keys), new_objective<LladaSft>};
}

} // namespace dllm::noise
