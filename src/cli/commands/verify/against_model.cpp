#include "against_model.h"

#include "../bench/bench_work.h"
#include "../compile/compile_report.h"

#include <algorithm>

namespace dllm::cli {
namespace {

using SideJson = nlohmann::ordered_json;

template <class T>
std::vector<T> numbers_of(const dllm_batch* batch, const char* name, int32_t dtype) {
  const auto tensor = make<dllm_tensor>(
      [&](dllm_tensor** out, dllm_error* err) { return dllm_batch_array(batch, name, out, err); });
  int64_t count = 1;
  for (int64_t axis = 0; axis < dllm_tensor_rank(tensor.get()); ++axis)
    count *= dllm_tensor_dim(tensor.get(), axis);
  std::vector<T> values(static_cast<size_t>(count));
  call([&](dllm_error* err) {
    return dllm_tensor_read(tensor.get(), dtype, values.data(),
                            static_cast<int64_t>(values.size() * sizeof(T)), err);
  });
  return values;
}

} // namespace

Side open_side(Context& context, StatusLine& status, const std::string& path,
               const SideJson& engine_options, const SideJson& model_options) {
  Side side;
  status.follow(context.task(), [path](int64_t done, int64_t total) {
    return "loading " + path + ": " + bytes_text(static_cast<double>(done)) + " of " +
           bytes_text(static_cast<double>(total));
  });
  const auto engine = options_with("engine", engine_options);
  side.engine = make<dllm_engine>(
      [&](dllm_engine** out, dllm_error* err) { return dllm_engine_new(engine.get(), out, err); });
  const auto model = options_with("model", model_options);
  side.model = make<dllm_model>([&](dllm_model** out, dllm_error* err) {
    return dllm_model_load(side.engine.get(), path.c_str(), model.get(), context.task(), out, err);
  });
  side.about = SideJson::parse(text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_model_describe(side.model.get(), out, err);
  }));
  return side;
}

Owned<dllm_batch> row_batch(const std::vector<int32_t>& ids) {
  auto batch =
      make<dllm_batch>([](dllm_batch** out, dllm_error* err) { return dllm_batch_new(out, err); });
  const int64_t dims[] = {1, static_cast<int64_t>(ids.size())};
  call([&](dllm_error* err) {
    return dllm_batch_set(batch.get(), "ids", DLLM_I32, dims, 2, ids.data(), err);
  });
  return batch;
}

std::vector<int32_t> ids_of(const dllm_batch* batch) {
  return numbers_of<int32_t>(batch, "ids", DLLM_I32);
}

std::vector<float> logits_of(const Context& context, Side& side, const std::vector<int32_t>& ids) {
  const auto batch = row_batch(ids);
  const auto options =
      options_with("forward", side.is_causal() ? SideJson{{"shift", 1}} : SideJson::object());
  Owned<dllm_batch> result;
  side.seconds.push_back(seconds_of([&] {
    result = make<dllm_batch>([&](dllm_batch** out, dllm_error* err) {
      return dllm_model_forward(side.model.get(), batch.get(), options.get(), context.task(), out,
                                err);
    });
  }));
  return numbers_of<float>(result.get(), "logits", DLLM_F32);
}

std::vector<int32_t> continuation(const Context& context, Side& side,
                                  const std::vector<int32_t>& prompt, int64_t length) {
  const std::string policy = side.is_causal() ? "autoregressive" : "low_confidence";
  SideJson values = {{"policy", policy}, {"gen_length", length}};
  if (!side.is_causal()) values["steps"] = length;
  const auto options = options_with(("decoder:" + policy).c_str(), values);
  const auto decoder = make<dllm_decoder>([&](dllm_decoder** out, dllm_error* err) {
    return dllm_decoder_new(side.model.get(), options.get(), out, err);
  });
  int64_t slot = 0;
  call([&](dllm_error* err) {
    return dllm_decoder_add(decoder.get(), prompt.data(), nullptr,
                            static_cast<int64_t>(prompt.size()), nullptr, &slot, err);
  });
  for (int64_t active = 1; active > 0;)
    call([&](dllm_error* err) {
      return dllm_decoder_step(decoder.get(), context.task(), &active, err);
    });
  std::vector<int32_t> ids = canvas_of(decoder.get(), slot).ids;
  ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(prompt.size()));
  return ids;
}

double rows_per_second(const Side& side, size_t rows) {
  std::vector<double> seconds = side.seconds;
  if (seconds.size() > 1) seconds.erase(seconds.begin());
  std::nth_element(seconds.begin(),
                   seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2),
                   seconds.end());
  return static_cast<double>(rows) / seconds[seconds.size() / 2];
}

} // namespace dllm::cli
