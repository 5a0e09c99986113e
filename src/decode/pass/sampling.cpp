#include "decode/pass/sampling.h"

#include "graph/filters/filter.h"

#include <algorithm>

namespace dllm::decode {
namespace {

// Returns the places of a program's filters in the table, in the order in which they act.
std::vector<size_t> filters_in_order(const PassShape& shape) {
  std::vector<size_t> places;
  for (size_t i = 0; i < graph::draw_filters().size(); ++i) {
    if ((shape.filters >> i & 1) != 0) places.push_back(i);
  }
  if (shape.needs.nucleus_first) {
    const auto nucleus = std::ranges::find(places, graph::filter_index("top_p"));
    if (nucleus != places.end()) std::rotate(places.begin(), nucleus, nucleus + 1);
  }
  return places;
}

template <class T> Tensor column_of(const Shape& shape, const std::vector<double>& numbers) {
  std::vector<T> column;
  for (const double number : numbers) column.push_back(static_cast<T>(number));
  return Tensor::from(shape, column);
}

} // namespace

SamplingColumns::SamplingColumns(size_t lines, const PassShape& shape)
    : temperature_(lines, 0.0f), filters_(filters_in_order(shape)) {
  for (const size_t place : filters_)
    columns_.emplace_back(lines, graph::draw_filters()[place].off());
}

void SamplingColumns::put(size_t line, const Request& request, float temperature) {
  temperature_[line] = temperature >= 0 ? temperature : request.settings.temperature;
  for (size_t i = 0; i < filters_.size(); ++i)
    columns_[i][line] = request.settings.filters[filters_[i]];
}

void SamplingColumns::add_to(Batch& feed, const Shape& shape) const {
  feed.set("temperature", Tensor::from(shape, temperature_));
  for (size_t i = 0; i < filters_.size(); ++i) {
    const graph::DrawFilter& filter = graph::draw_filters()[filters_[i]];
    feed.set(filter.name(), filter.counts_ids() ? column_of<int32_t>(shape, columns_[i])
                                                : column_of<float>(shape, columns_[i]));
  }
}

void add_sampling(graph::TokenStatisticsInputs& head, const PassShape& shape,
                  const std::function<graph::Value(const char* name, DType dtype)>& make) {
  head.temperature = make("temperature", DType::f32);
  for (const size_t place : filters_in_order(shape)) {
    const graph::DrawFilter& filter = graph::draw_filters()[place];
    head.filters.emplace_back(filter.name(), make(filter.name().c_str(), filter.dtype()));
  }
}

} // namespace dllm::decode
