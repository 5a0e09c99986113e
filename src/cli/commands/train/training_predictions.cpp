#include "training_predictions.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace dllm::cli {
namespace {

constexpr int64_t kNoiseSeed = 1;

size_t bytes_of_number(int32_t dtype) {
  switch (dtype) {
  case DLLM_I64: return 8;
  case DLLM_I32:
  case DLLM_F32: return 4;
  case DLLM_U8: return 1;
  default: return 0; // no array of token rows
  }
}

Owned<dllm_tensor> array_of_batch(const dllm_batch* batch, const char* name) {
  return make<dllm_tensor>(
      [&](dllm_tensor** out, dllm_error* err) { return dllm_batch_array(batch, name, out, err); });
}

void set_row_array(dllm_batch* batch, const char* name, int32_t dtype,
                   const std::vector<int64_t>& dims, const void* data) {
  call([&](dllm_error* err) {
    return dllm_batch_set(batch, name, dtype, dims.data(), static_cast<int64_t>(dims.size()), data,
                          err);
  });
}

std::vector<int32_t> token_numbers(const dllm_batch* batch, const char* name,
                                   bool required = true) {
  bool there = required;
  for (int64_t i = 0; i < dllm_batch_count(batch); ++i)
    there = there || std::strcmp(dllm_batch_name(batch, i), name) == 0;
  if (!there) return {};
  const Owned<dllm_tensor> array = array_of_batch(batch, name);
  std::vector<int32_t> numbers(static_cast<size_t>(dllm_tensor_dim(array.get(), 1)));
  call([&](dllm_error* err) {
    return dllm_tensor_read(array.get(), DLLM_I32, numbers.data(),
                            static_cast<int64_t>(numbers.size() * sizeof(int32_t)), err);
  });
  return numbers;
}

struct Prediction {
  int32_t id;
  double loss; // of the target, in nats
};

Prediction prediction_of(const float* logits, int64_t vocabulary, int32_t target) {
  const float* most = std::max_element(logits, logits + vocabulary);
  double sum = 0;
  for (int64_t i = 0; i < vocabulary; ++i) sum += std::exp(logits[i] - *most);
  return {static_cast<int32_t>(most - logits),
          std::log(sum) + static_cast<double>(*most) - static_cast<double>(logits[target])};
}

} // namespace

Owned<dllm_tensor> ids_array(const dllm_batch* batch) {
  return array_of_batch(batch, "ids");
}

Owned<dllm_batch> row_of(const dllm_batch* batch, int64_t row, int64_t width, float t,
                         int64_t number) {
  auto one =
      make<dllm_batch>([](dllm_batch** out, dllm_error* err) { return dllm_batch_new(out, err); });
  const int64_t rows = dllm_tensor_dim(array_of_batch(batch, "ids").get(), 0);
  for (int64_t i = 0; i < dllm_batch_count(batch); ++i) {
    const char* name = dllm_batch_name(batch, i);
    const Owned<dllm_tensor> array = array_of_batch(batch, name);
    const size_t size = bytes_of_number(dllm_tensor_dtype(array.get()));
    const bool of_tokens =
        dllm_tensor_rank(array.get()) == 2 && dllm_tensor_dim(array.get(), 0) == rows;
    if (!of_tokens || size == 0) continue;
    const auto* data = static_cast<const unsigned char*>(dllm_tensor_data(array.get()));
    const auto columns = dllm_tensor_dim(array.get(), 1);
    set_row_array(one.get(), name, dllm_tensor_dtype(array.get()), {1, std::min(width, columns)},
                  data + static_cast<size_t>(row * columns) * size);
  }
  const int64_t place[2] = {number, number + 1};
  set_row_array(one.get(), "rows", DLLM_I64, {2}, place);
  set_row_array(one.get(), "t", DLLM_F32, {1}, &t);
  return one;
}

PredictedRow predict_row(const Context& context, const Run& run, const dllm_batch* row) {
  const auto prepared = make<dllm_batch>([&](dllm_batch** out, dllm_error* err) {
    return dllm_objective_prepare(run.objective.get(), run.model.get(), row, kNoiseSeed, 0, out,
                                  err);
  });
  PredictedRow made;
  made.ids = token_numbers(row, "ids");
  const std::vector<int32_t> noised = token_numbers(prepared.get(), "ids"),
                             targets = token_numbers(prepared.get(), "targets"),
                             keep = token_numbers(row, "keep", false);
  if (noised.size() != made.ids.size()) {
    throw Failure(DLLM_UNIMPLEMENTED,
                  "objective " + context.text("objective") + " makes rows of another length");
  }
  const auto result = make<dllm_batch>([&](dllm_batch** out, dllm_error* err) {
    return dllm_model_forward(run.model.get(), prepared.get(), nullptr, context.task(), out, err);
  });
  const Owned<dllm_tensor> logits = array_of_batch(result.get(), "logits");
  const auto* values = static_cast<const float*>(dllm_tensor_data(logits.get()));
  const int64_t vocabulary = dllm_tensor_dim(logits.get(), 2);
  made.guesses = made.ids;
  made.states.assign(made.ids.size(), 0);
  int64_t open = 0, corrupted = 0, right = 0;
  for (size_t i = 0; i < made.ids.size(); ++i) {
    open += keep.empty() || keep[i] == 0 ? 1 : 0;
    if (targets[i] < 0 || noised[i] == made.ids[i]) continue;
    const Prediction one =
        prediction_of(values + static_cast<int64_t>(i) * vocabulary, vocabulary, targets[i]);
    ++corrupted;
    made.loss += one.loss;
    made.guesses[i] = one.id;
    made.states[i] = one.id == targets[i] ? 2 : 1;
    right += made.states[i] - 1;
  }
  made.counts = corrupted > 0;
  made.loss /= static_cast<double>(std::max<int64_t>(corrupted, 1));
  made.right = static_cast<double>(right) / static_cast<double>(std::max<int64_t>(corrupted, 1));
  made.share = static_cast<double>(corrupted) / static_cast<double>(std::max<int64_t>(open, 1));
  return made;
}

} // namespace dllm::cli
