#include "decode/prediction_line.h"

#include "graph/ops.h"

#include <bit>
#include <cmath>

namespace dllm::decode {

using graph::Value;

Value prediction_lines(const PredictionValues& said, const PredictionColumns& columns,
                       const std::vector<Value>& more) {
  const int64_t places = said.token.shape().count();
  std::vector<Value> parts;
  const auto add = [&](Value x) {
    const Shape shape{places, x.shape().count() / places};
    parts.push_back(graph::reshape(graph::bitcast(x, DType::i32), shape));
  };
  for (const Value& x :
       {said.token, said.argmax, said.probability, said.max_probability, said.entropy})
    add(x);
  if (columns.shaped >= 0) {
    for (const Value& x : {said.shaped_probability, said.shaped_margin, said.shaped_entropy})
      add(x);
  }
  add(said.top_ids);
  add(said.top_probs);
  for (const Value& x : more) add(x);
  return graph::concat(parts, 1);
}

bool is_finite(const Prediction& prediction) {
  return prediction.max_probability > 0.0f && std::isfinite(prediction.entropy);
}

Prediction prediction_of(std::span<const int32_t> line, const PredictionColumns& columns,
                         int64_t position) {
  const auto id = [&](int64_t column) { return line[static_cast<size_t>(column)]; };
  const auto number = [&](int64_t column) { return std::bit_cast<float>(id(column)); };
  Prediction p;
  p.position = position;
  p.token = id(columns.draw);
  p.probability = number(columns.draw_prob);
  p.argmax = id(columns.argmax);
  p.max_probability = number(columns.max_prob);
  p.entropy = number(columns.entropy);
  if (columns.shaped >= 0) {
    p.shaped_probability = number(columns.shaped);
    p.shaped_margin = number(columns.shaped + 1);
    p.shaped_entropy = number(columns.shaped + 2);
  }
  for (int64_t k = 0; k < columns.top; ++k) {
    p.top_ids.push_back(id(columns.top_ids + k));
    p.top_probs.push_back(number(columns.top_probs + k));
  }
  return p;
}

} // namespace dllm::decode
