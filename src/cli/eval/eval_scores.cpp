#include "eval.h"

#include <algorithm>

namespace dllm::cli {
namespace {

std::vector<double> numbers_of(const dllm_batch* batch, const char* name) {
  const auto array = make<dllm_tensor>(
      [&](dllm_tensor** out, dllm_error* err) { return dllm_batch_array(batch, name, out, err); });
  std::vector<double> numbers(static_cast<size_t>(dllm_tensor_dim(array.get(), 0)));
  call([&](dllm_error* err) {
    return dllm_tensor_read(array.get(), DLLM_F64, numbers.data(),
                            static_cast<int64_t>(numbers.size() * sizeof(double)), err);
  });
  return numbers;
}

class BoundScorer final : public AnswerScorer {
public:
  BoundScorer(const Context& context, const ScoredModel& scored, int64_t draws)
      : context_(context), scored_(scored), draws_(scored.objective_name == "ar" ? 1 : draws) {}

  // Equal rows draw different noise: one batch is all draws.
  Mean score(const std::vector<int32_t>& prompt, const std::vector<int32_t>& answer,
             int64_t seed) override {
    if (answer.empty()) return {};
    std::vector<int32_t> ids;
    std::vector<uint8_t> keep;
    for (int64_t i = 0; i < draws_; ++i) {
      ids.insert(ids.end(), prompt.begin(), prompt.end());
      ids.insert(ids.end(), answer.begin(), answer.end());
      keep.insert(keep.end(), prompt.size(), 1); // given
      keep.insert(keep.end(), answer.size(), 0);
    }
    const int64_t dims[2] = {draws_, static_cast<int64_t>(prompt.size() + answer.size())};
    const auto batch = make<dllm_batch>(
        [](dllm_batch** out, dllm_error* err) { return dllm_batch_new(out, err); });
    call([&](dllm_error* err) {
      return dllm_batch_set(batch.get(), "ids", DLLM_I32, dims, 2, ids.data(), err);
    });
    call([&](dllm_error* err) {
      return dllm_batch_set(batch.get(), "keep", DLLM_U8, dims, 2, keep.data(), err);
    });
    Mean mean = mean_of(row_sums(context_, scored_, batch.get(), seed).sums);
    mean.value = -mean.value;
    return mean;
  }

private:
  const Context& context_;
  const ScoredModel& scored_;
  int64_t draws_;
};

std::string objective_for(const Context& context, const dllm_model* model) {
  const std::string asked = context.text("objective");
  if (asked != "auto") return asked;
  const EvalJson about = EvalJson::parse(text(
      [&](dllm_buffer* out, dllm_error* err) { return dllm_model_describe(model, out, err); }));
  return about.value("attention", "") == "causal" ? "ar" : "mdlm";
}

} // namespace

ScoredModel::ScoredModel(Context& context)
    : engine(open_engine(context)), model(open_model(context, engine.get(), context.text("model"))),
      tokenizer(open_prompt_tokenizer(context.text("model"))) {
  objective_name = objective_for(context, model.get());
  objective = make<dllm_objective>([&](dllm_objective** out, dllm_error* err) {
    return dllm_objective_new(objective_name.c_str(), nullptr, nullptr, out, err);
  });
}

RowSums row_sums(const Context& context, const ScoredModel& scored, const dllm_batch* batch,
                 int64_t seed) {
  const auto losses = make<dllm_batch>([&](dllm_batch** out, dllm_error* err) {
    return dllm_objective_row_losses(scored.objective.get(), scored.model.get(), batch, seed,
                                     context.task(), out, err);
  });
  return {numbers_of(losses.get(), "sums"), numbers_of(losses.get(), "counts")};
}

std::unique_ptr<AnswerScorer> bound_scorer(const Context& context, const ScoredModel& scored,
                                           int64_t draws) {
  return std::make_unique<BoundScorer>(context, scored, draws);
}

} // namespace dllm::cli
