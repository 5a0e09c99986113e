#include "noise/uniform_nelbo.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

namespace dllm::noise {

UniformTerms uniform_terms(double alpha, int64_t tokens, bool kept) {
  const auto k = static_cast<double>(tokens);
  const double c = k * alpha / (1 - alpha);
  UniformTerms terms;
  terms.odds = static_cast<float>(c);
  if (kept) { // xb_z = K alpha + 1 - alpha, the others are 1 / (1 + c) of it
    terms.kept = 1;
    terms.ratio = static_cast<float>(k * c / ((1 - alpha) * (1 + c)));
    terms.sum = static_cast<float>(1 / (1 + c));
    terms.base = static_cast<float>((k - 1) * std::log1p(c) / (1 + c));
  } else { // xb_z = 1 - alpha, and that of x is 1 + c times it
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

namespace {

constexpr int64_t kRowsAtATime = 128;

// The logits of these rows, all of them.
graph::Value row_logits(const model::Head& head, graph::Value hidden, int32_t banned) {
  graph::Graph& graph = *hidden.graph;
  const graph::Value logits =
      graph::softcap(graph::linear(hidden, head.weight, head.bias, head.scale), head.softcap);
  if (banned < 0) return logits;
  const int64_t vocab = logits.dim(1);
  const graph::Value is_banned =
      graph::equal(graph::iota(graph, {1, vocab}, DType::i32, 1), graph::scalar_i32(graph, banned));
  return graph::select(graph::broadcast(is_banned, logits.shape()),
                       graph::full(graph, logits.shape(), -1e30f), logits);
}

} // namespace

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

namespace {

// (rows, ...) as (parts, rows of a part, ...), filled up with zeros.
graph::Value in_parts(graph::Value x, int64_t part) {
  graph::Graph& graph = *x.graph;
  const int64_t parts = (x.dim(0) + part - 1) / part;
  std::vector<int64_t> low(static_cast<size_t>(x.rank()), 0), high = low;
  high[0] = parts * part - x.dim(0);
  const graph::Value zero =
      x.dtype() == DType::i32 ? graph::scalar_i32(graph, 0) : graph::scalar(graph, 0.0f);
  const graph::Value filled = high[0] > 0 ? graph::pad(x, low, high, zero) : x;
  std::vector<int64_t> dims = filled.shape().dims();
  dims[0] = part;
  dims.insert(dims.begin(), parts);
  return graph::reshape(filled, Shape(dims));
}

} // namespace

UniformLoss uniform_nelbo(const model::Head& head, const UniformRows& rows, int32_t banned) {
  const int64_t count = rows.hidden.dim(0), part = std::min(count, kRowsAtATime);
  const auto body = std::make_shared<graph::Graph>("uniform_rows");
  std::vector<graph::Value> per_part, constants;
  const auto row_input = [&](const char* name, graph::Value outer) {
    per_part.push_back(in_parts(outer, part));
    return body->input(name, {outer.shape().with_dim(0, part), outer.dtype(), outer.type().axes});
  };
  UniformRows inner;
  inner.hidden = row_input("hidden", rows.hidden);
  inner.noisy = row_input("noisy", rows.noisy);
  inner.clean = row_input("clean", rows.clean);
  inner.terms = row_input("terms", rows.terms);
  const auto constant = [&](const char* name, graph::Value outer) -> graph::Value {
    if (!outer.defined()) return {};
    constants.push_back(outer);
    return body->input(name, outer.type());
  };
  model::Head own;
  own.weight = constant("weight", head.weight);
  own.bias = constant("bias", head.bias);
  own.scale = constant("scale", head.scale);
  own.softcap = head.softcap;
  const graph::Value logits = row_logits(own, inner.hidden, banned);
  const UniformLoss made = uniform_nelbo_of(logits, inner, logits.dim(1) - (banned >= 0 ? 1 : 0));
  body->output("bound", made.bound);
  body->output("nll", made.nll);
  graph::ScanOptions options;
  options.remat = true;
  const std::vector<graph::Value> stacked =
      graph::scan(body, {}, per_part, constants, per_part[0].dim(0), options).stacked;
  const auto flat = [&](graph::Value x) {
    return graph::slice_axis(graph::reshape(x, {x.dim(0) * x.dim(1)}), 0, 0, count);
  };
  return {flat(stacked[0]), flat(stacked[1])};
}

} // namespace dllm::noise
