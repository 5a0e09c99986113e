#include "decode/pass/predictions.h"

#include "base/error.h"
#include "graph/ops.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace dllm::decode {

using graph::Value;

Value prediction_lines(const PredictionValues& predicted, const PredictionColumns& columns,
                       const std::vector<Value>& more) {
  const int64_t places = predicted.token.shape().count();
  std::vector<Value> parts;
  const auto add = [&](Value x) {
    const Shape shape{places, x.shape().count() / places};
    parts.push_back(graph::reshape(graph::bitcast(x, DType::i32), shape));
  };
  for (const Value& x : {predicted.token, predicted.argmax, predicted.probability,
                         predicted.max_probability, predicted.entropy})
    add(x);
  if (columns.shaped >= 0) {
    for (const Value& x :
         {predicted.shaped_probability, predicted.shaped_margin, predicted.shaped_entropy})
      add(x);
  }
  add(predicted.top_ids);
  add(predicted.top_probs);
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

void fail_not_finite(int64_t position, std::span<const uint8_t> banned,
                     const std::function<std::string()>& cause) {
  const bool open = banned.empty() || std::ranges::find(banned, uint8_t{0}) != banned.end();
  if (!open) {
    fail_with_hint("let suppress name fewer tokens", Code::failed_precondition,
                   "every token is banned at position {}", position);
  }
  const std::string operation = cause ? cause() : std::string();
  fail_with_hint("look at the weights: NaN and infinity spread from layer to layer",
                 Code::failed_precondition, "the logits at position {} are not finite{}{}",
                 position, operation.empty() ? "" : ": ", operation);
}

} // namespace dllm::decode
