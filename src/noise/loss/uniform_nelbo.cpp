#include "noise/loss/uniform_nelbo.h"

#include "noise/rows/head_rows.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace dllm::noise {

UniformTerms uniform_terms(double alpha, int64_t tokens, bool kept) {
  const auto k = static_cast<double>(tokens);
  const double c = k * alpha / (1 - alpha);
  UniformTerms terms;
  terms.odds = static_cast<float>(c);
  if (kept) { // xb_z = K alpha + 1 - alpha; each other entry is xb_z / (1 + c)
    terms.kept = 1;
    terms.ratio = static_cast<float>(k * c / ((1 - alpha) * (1 + c)));
    terms.sum = static_cast<float>(1 / (1 + c));
    terms.base = static_cast<float>((k - 1) * std::log1p(c) / (1 + c));
  } else { // xb_z = 1 - alpha; the entry of x is (1 + c) xb_z
    terms.ratio = static_cast<float>(k * c / (1 - alpha));
    terms.sum = 1;
    terms.clean = static_cast<float>(c);
    terms.base = static_cast<float>(-(1 + c) * std::log1p(c));
  }
  return terms;
}

double uniform_weight(double alpha, double dalpha, int64_t tokens) {
  return -dalpha / (static_cast<double>(tokens) * alpha);
}

UniformLoss uniform_nelbo_of(graph::Value logits, const UniformRows& rows, int64_t tokens) {
  graph::Graph& graph = *logits.graph;
  const int64_t count = logits.dim(0);
  const auto term = [&](int64_t i) { return graph::slice_axis(rows.terms, 1, i, i + 1); };
  const auto at = [&](graph::Value x, graph::Value token) {
    const graph::Value index = graph::maximum(token, graph::scalar_i32(graph, 0));
    return graph::take_along(x, graph::reshape(index, {count, 1}), 1); // (count, 1)
  };
  const graph::Value log_p = graph::log_softmax(logits, 1), p = graph::exp(log_p);
  const graph::Value logs = graph::log1p(graph::multiply(p, term(0))); // log(tb / (1 - alpha))
  const graph::Value log_z = at(logs, rows.noisy), log_x = at(logs, rows.clean);
  // c (p_z - kept) / (1 + c p_z); the ratio holds the c.
  const graph::Value apart =
      graph::divide(graph::subtract(at(p, rows.noisy), term(1)), graph::exp(log_z));
  const graph::Value all =
      graph::subtract(graph::sum(logs, {1}, true),
                      graph::multiply(log_z, graph::scalar(graph, static_cast<float>(tokens))));
  graph::Value bracket = graph::add(graph::multiply(term(2), apart), term(5));
  bracket = graph::add(bracket, graph::multiply(term(3), all));
  bracket = graph::add(bracket, graph::multiply(term(4), graph::subtract(log_x, log_z)));
  return {graph::reshape(graph::negate(bracket), {count}),
          graph::reshape(graph::negate(at(log_p, rows.clean)), {count})};
}

UniformLoss uniform_nelbo(const model::Head& head, const UniformRows& rows, int32_t banned) {
  const HeadOfRows heads[] = {{head, rows.hidden, banned}};
  const graph::Value arrays[] = {rows.noisy, rows.clean, rows.terms};
  const auto body = [&](std::span<const graph::Value> logits, std::span<const graph::Value> part) {
    const UniformLoss made = uniform_nelbo_of(logits[0], {{}, part[0], part[1], part[2]},
                                              logits[0].dim(1) - (banned >= 0 ? 1 : 0));
    return std::vector{made.bound, made.nll};
  };
  const std::vector<graph::Value> made = over_head_rows("uniform_rows", heads, arrays, body);
  return {made[0], made[1]};
}

} // namespace dllm::noise
