#include "decode/pass/sampling.h"

namespace dllm::decode {
namespace {

struct Column {
  const char* name; // of the input
  DType dtype;
  graph::Value graph::TokenStatisticsInputs::*input;
  double off; // of a line without a request
  double (*value)(const Request& request);
};

constexpr Column kColumns[] = {
    {"temperature", DType::f32, &graph::TokenStatisticsInputs::temperature, 0,
     [](const Request& request) -> double { return request.settings.temperature; }},
    {"top_k", DType::i32, &graph::TokenStatisticsInputs::top_k, 0,
     [](const Request& request) -> double { return request.settings.top_k; }},
    {"top_p", DType::f32, &graph::TokenStatisticsInputs::top_p, 1,
     [](const Request& request) -> double { return request.settings.top_p; }},
};
constexpr size_t kTemperature = 0;

template <class T> Tensor column_of(const Shape& shape, const std::vector<double>& numbers) {
  std::vector<T> column;
  for (const double number : numbers) column.push_back(static_cast<T>(number));
  return Tensor::from(shape, column);
}

} // namespace

SamplingColumns::SamplingColumns(size_t lines) {
  for (const Column& column : kColumns) columns_.emplace_back(lines, column.off);
}

void SamplingColumns::put(size_t line, const Request& request, float temperature) {
  for (size_t c = 0; c < columns_.size(); ++c) columns_[c][line] = kColumns[c].value(request);
  if (temperature >= 0) columns_[kTemperature][line] = temperature;
}

void SamplingColumns::add_to(Batch& feed, const Shape& shape) const {
  for (size_t c = 0; c < columns_.size(); ++c) {
    const std::vector<double>& numbers = columns_[c];
    feed.set(kColumns[c].name, kColumns[c].dtype == DType::i32 ? column_of<int32_t>(shape, numbers)
                                                               : column_of<float>(shape, numbers));
  }
}

void add_sampling(graph::TokenStatisticsInputs& head,
                  const std::function<graph::Value(const char* name, DType dtype)>& make) {
  for (const Column& column : kColumns) head.*column.input = make(column.name, column.dtype);
}

} // namespace dllm::decode
