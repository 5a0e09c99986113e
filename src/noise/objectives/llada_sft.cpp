// Supervised fine-tuning of masked diffusion (Nie et al. 2025, LLaDA, section 2.3). Prompts do not
// change (`keep`, labels -100), answers are masked, and the loss of each text is divided by the
// length of its own answer, also in packed rows:
//   loss = 1 / texts * sum over texts of 1 / length * sum over masked i of CE_i / t.
// With answer_padding the padding after an answer is part of it, so the model learns where to stop.

#include "noise/objectives/masked.h"
#include "noise/rows/trained_padding.h"

namespace dllm::noise {

namespace {

class LladaSft final : public MaskedDiffusion {
public:
  LladaSft(ScheduleRef schedule, const Options& options)
      : MaskedDiffusion("llada_sft", std::move(schedule), options, TrajectoryMasks(options)) {}

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
  std::vector<OptionSpec> keys = masked_row_options();
  option_of(keys, "loss_norm").default_value = std::string("sequence");
  keys.push_back(
      option_bool("answer_padding", false,
                  "Padding after an answer is trained as part of the answer, as LLaDA does."));
  return {"llada_sft",
          "linear",
          std::move(keys),
          new_objective<LladaSft>,
          {.padding = "answer_padding"}};
}

} // namespace dllm::noise
