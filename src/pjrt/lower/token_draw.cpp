// The draw of token_statistics: by the inverse distribution function or the largest noisy logit, of
// what temperature and filters leave.

#include "graph/ops/build.h"
#include "pjrt/lower/token_rows.h"

#include <limits>

namespace dllm::pjrt {

using graph::Value;
using namespace graph::ops;

namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

// Rows that draw: temperature > 0 and large enough to divide by.
Value draws(Value temperature) {
  const Value positive = greater(temperature, full_like(temperature, 0));
  const Value one = full_like(temperature, 1);
  return logical_and(positive, is_finite(divide(one, select(positive, temperature, one))));
}

struct Shaped {
  Value prob, margin, entropy;
};

// Of weight / its sum over the kept ids; z - largest in `gap`.
Shaped shaped_statistics(Value weight, Value gap, Value id) {
  const Value none = full_like(weight, 0);
  const Value total = sum(weight, {1}), most = max(weight, {1});
  const Value place = iota(*weight.graph, weight.shape(), DType::i32, 1);
  const Value rest = select(equal(place, column(argmax(weight, 1))), none, weight);
  const Value terms = select(greater(weight, none), multiply(weight, gap), none);
  return {divide(at_id(weight, id), total), divide(subtract(most, max(rest, {1})), total),
          subtract(log(total), divide(sum(terms, {1}), total))};
}

Drawn draw_rows(const DrawRequest& ask, Value logits, Value best, Value active) {
  const Value warm = draws(ask.temperature), one = full_like(ask.temperature, 1);
  const Value factor = divide(one, select(warm, ask.temperature, one));
  const Value z = multiply(logits, column(factor));
  const Value gap = subtract(z, max(z, {1}, true));
  const Value all = exp(gap);
  const Value used = ask.shaped ? active : logical_and(active, warm);
  const Value kept = kept_ids(ask, z, all, used);
  const Value weight = select(kept, all, full_like(all, 0));
  Value id;
  if (ask.noise.defined()) {
    id = argmax(select(kept, add(z, ask.noise), full_like(z, kNever)), 1);
  } else {
    id = invert(weight, ask.uniform);
  }
  Drawn made{select(warm, id, best), {}, {}, {}};
  if (ask.shaped) {
    const Shaped s = shaped_statistics(weight, gap, made.id);
    made.shaped_prob = s.prob;
    made.margin = s.margin;
    made.entropy = s.entropy;
  }
  return made;
}

} // namespace

Drawn draw(const DrawRequest& ask, Value logits, Value best, Value active) {
  if (ask.shaped) return draw_rows(ask, logits, best, active);
  const Value none = zeros(*logits.graph, best.shape());
  const Value demand = select(logical_and(active, draws(ask.temperature)), ask.temperature, none);
  std::vector<Value> operands{demand, best, logits, active, ask.top_k, ask.top_p, ask.uniform};
  if (ask.noise.defined()) operands.push_back(ask.noise);
  OnDemand once("draw", axes_of(operands), demand);
  const Value greedy = once.state(best);
  const Value inner_logits = once.outside(logits), inner_active = once.outside(active);
  DrawRequest inner = ask;
  inner.temperature = once.demand();
  inner.top_k = once.outside(ask.top_k);
  inner.top_p = once.outside(ask.top_p);
  inner.uniform = once.outside(ask.uniform);
  inner.noise = once.outside(ask.noise);
  const Drawn made = draw_rows(inner, inner_logits, greedy, inner_active);
  return {once.run({made.id})[0], none, none, none};
}

} // namespace dllm::pjrt
