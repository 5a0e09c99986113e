#include "noise/terms/divergence.h"

#include "graph/ops.h"
#include "noise/rows/head_rows.h"

#include <numbers>

namespace dllm::noise {
namespace {

using graph::Value;
using std::numbers::ln2;

Value scaled(Value x, double factor) {
  return graph::multiply(x, graph::scalar(*x.graph, static_cast<float>(factor)));
}

// Returns sum_k exp(p_k) (p_k - q_k) of log probabilities, f32(rows).
Value relative_entropy(Value p, Value q) {
  return graph::sum(graph::multiply(graph::exp(p), graph::subtract(p, q)), {1});
}

// Returns log((exp(p) + exp(q)) / 2).
Value log_mean(Value p, Value q) {
  const Value apart = graph::absolute(graph::subtract(p, q));
  const Value more = graph::log1p(graph::exp(graph::negate(apart)));
  const Value log_two = graph::scalar(*p.graph, static_cast<float>(ln2));
  return graph::subtract(graph::add(graph::maximum(p, q), more), log_two);
}

Value of_rows(const Divergence& divergence, Value student, Value teacher) {
  switch (divergence.kind) {
  case DivergenceKind::forward: return relative_entropy(teacher, student);
  case DivergenceKind::reverse: return relative_entropy(student, teacher);
  case DivergenceKind::jensen_shannon: break;
  }
  const Value middle = log_mean(student, teacher);
  return scaled(graph::add(relative_entropy(teacher, middle), relative_entropy(student, middle)),
                0.5);
}

// The same where the teacher has k tokens alone, f32(rows, k): s and t are the probabilities of
// these tokens, and m is the sum of s.
//   forward  sum t log(t / s)
//   reverse  sum (s / m) log(s / (m t)) - log m: of the distributions within the k tokens, and of
//            the student's mass on them
//   js       of s, with what it has outside of the k tokens, and t
Value of_top(const Divergence& divergence, Value own, Value other) {
  const Value log_mass = graph::log_sum_exp(own, 1); // finite, even where the mass is 0 in f32
  switch (divergence.kind) {
  case DivergenceKind::forward: return relative_entropy(other, own);
  case DivergenceKind::reverse:
    return graph::subtract(relative_entropy(graph::log_softmax(own, 1), other), log_mass);
  case DivergenceKind::jensen_shannon: break;
  }
  const Value middle = log_mean(own, other);
  const Value outside =
      scaled(graph::subtract(graph::scalar(*own.graph, 1.0f), graph::exp(log_mass)), ln2);
  const Value both = graph::add(relative_entropy(other, middle), relative_entropy(own, middle));
  return scaled(graph::add(both, outside), 0.5);
}

Value log_probabilities(const Divergence& divergence, Value logits) {
  return graph::log_softmax(scaled(logits, 1.0 / divergence.temperature), 1);
}

} // namespace

Value divergences(const Divergence& divergence, const model::Head& student_head, Value student,
                  const model::Head& teacher_head, Value teacher) {
  const HeadOfRows heads[] = {
      {model::whole(student_head, student), student},
      {model::whole(teacher_head, graph::stop_gradient(teacher)), graph::stop_gradient(teacher)}};
  const auto body = [&](std::span<const Value> logits, std::span<const Value>) {
    // The student may have more tokens than the teacher, which come last.
    const Value shared = graph::slice_axis(logits[0], 1, 0, logits[1].dim(1));
    const Value own = log_probabilities(divergence, shared),
                other = graph::stop_gradient(log_probabilities(divergence, logits[1]));
    return std::vector{of_rows(divergence, own, other)};
  };
  const double square = divergence.temperature * divergence.temperature;
  return scaled(over_head_rows("divergence", heads, {}, body)[0], square);
}

Value top_divergences(const Divergence& divergence, const model::Head& head, Value student,
                      Value top_ids, Value top_logits) {
  const HeadOfRows heads[] = {{model::whole(head, student), student}};
  const Value arrays[] = {top_ids, top_logits};
  const auto body = [&](std::span<const Value> logits, std::span<const Value> rows) {
    const Value own = graph::take_along(log_probabilities(divergence, logits[0]), rows[0], 1),
                other = log_probabilities(divergence, rows[1]);
    return std::vector{of_top(divergence, own, other)};
  };
  const double square = divergence.temperature * divergence.temperature;
  return scaled(over_head_rows("top_divergence", heads, arrays, body)[0], square);
}

} // namespace dllm::noise
