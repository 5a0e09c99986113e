// Filters ids and draws tokens from rows of logits. A filter without a form here runs as its graph.

#include "base/named_table.h"
#include "graph/ops/build.h"
#include "pjrt/lower/head.h"

#include <limits>
#include <string_view>
#include <vector>

namespace dllm::pjrt {

// top_k and top_p do not sort the vocabulary. Both keep a beginning of the order by z descending,
// then id ascending. A search finds the end bit by bit, and each bit costs one sum over the row,
// which compilers fuse with the comparison. Sorting 150000 ids of a row costs several times as much
// on CPUs and holds every id twice in memory. The search runs only if a row needs it.

using graph::FilteredRows;
using graph::Value;
using namespace graph::ops;

namespace {

// Returns f32(rows): the sum of the weights whose key is at least `floor` (rows).
Value sum_from(Value key, Value weight, Value floor) {
  return sum(select(greater_equal(key, column(floor)), weight, full_like(weight, 0)), {1});
}

// Returns the largest key for which the ids of this and larger keys weigh at least `limit`
// f32(rows).
Value search_key(Value key, Value weight, Value limit) {
  // Adding the smallest i32 flips the sign bit, which is exact.
  std::vector<int32_t> bits{std::numeric_limits<int32_t>::min()};
  for (int bit = 30; bit >= 0; --bit) bits.push_back(int32_t{1} << bit);
  graph::Graph& graph = *key.graph;
  const auto steps = static_cast<int64_t>(bits.size());
  const Value lowest =
      broadcast(graph::scalar_i32(graph, std::numeric_limits<int32_t>::min()), Shape{key.dim(0)});
  const std::vector<Value> operands{key, weight, limit};
  ScanBody body("bit of a cut", axes_of(operands));
  const Value found = body.state(lowest);
  const Value bit = body.element(constant(graph, Tensor::from(Shape{steps}, bits)));
  const Value keys = body.outside(key), weights = body.outside(weight),
              wanted = body.outside(limit);
  const Value next = add(found, bit);
  const Value enough = greater_equal(sum_from(keys, weights, next), wanted);
  return body.run({select(enough, next, found)}, {}, steps).carry[0];
}

// Returns the cut after the last id before which the ids weigh less than `limit` > 0.
Cut cut_where(Value key, Value weight, Value limit) {
  Cut cut{search_key(key, weight, limit), {}};
  const Value tie = equal(key, column(cut.key)), none = full_like(weight, 0);
  const Value above = sum(select(greater(key, column(cut.key)), weight, none), {1});
  const Value each = max(select(tie, weight, none), {1});
  const Value some = select(greater(each, full_like(each, 0)), each, full_like(each, 1));
  const Value left = divide(subtract(limit, above), some); // in ties
  const Value ties = negate(floor(negate(left)));
  const Value half = full_like(ties, 0.5);
  cut.id =
      first_beyond(convert(tie, DType::f32), subtract(maximum(ties, full_like(ties, 1)), half));
  return cut;
}

// Returns a cut that keeps every id.
Cut no_cut(graph::Graph& graph, int64_t rows, int64_t vocab) {
  const auto all = [&](int32_t value) {
    return broadcast(graph::scalar_i32(graph, value), Shape{rows});
  };
  return {all(std::numeric_limits<int32_t>::min()), all(static_cast<int32_t>(vocab))};
}

// Returns make(demand, operands) for rows whose demand is positive, `cut` for the others. make does
// not run if no demand is positive.
template <class Make>
Cut cut_on_demand(Cut cut, Value demand, const std::vector<Value>& operands, Make make) {
  std::vector<Value> all = operands;
  all.push_back(demand);
  OnDemand once("cut", axes_of(all), demand);
  const Cut before{once.state(cut.key), once.state(cut.id)};
  std::vector<Value> inner;
  for (Value value : operands) inner.push_back(once.outside(value));
  const Cut made = make(once.demand(), inner);
  const Value wanted = greater(once.demand(), full_like(once.demand(), 0));
  const auto done =
      once.run({select(wanted, made.key, before.key), select(wanted, made.id, before.id)});
  return {done[0], done[1]};
}

// A filter of a program. rows.kept is the ids that the filters before it left.
struct FilterStep {
  const graph::DrawFilter& filter;
  Value demand; // f32(rows): the setting where the filter is on, else 0
  FilteredRows rows;
  Value key; // order_key(rows.z)
  bool is_first;
};

Value cut_top_k(const FilterStep& step) {
  std::vector<Value> operands{step.key};
  if (!step.is_first) operands.push_back(convert(step.rows.kept, DType::f32));
  const Cut all = no_cut(*step.key.graph, step.key.dim(0), step.key.dim(1));
  return before_cut(
      step.key,
      cut_on_demand(all, step.demand, operands, [](Value count, const std::vector<Value>& in) {
        const Value each = in.size() > 1 ? in[1] : graph::full(*in[0].graph, in[0].shape(), 1);
        return cut_where(in[0], each, count);
      }));
}

Value cut_top_p(const FilterStep& step) {
  const Value weight = step.rows.weight;
  const Value counted =
      step.is_first ? weight : select(step.rows.kept, weight, full_like(weight, 0));
  const Cut all = no_cut(*step.key.graph, step.key.dim(0), step.key.dim(1));
  return before_cut(step.key, cut_on_demand(all, step.demand, {step.key, counted},
                                            [](Value share, const std::vector<Value>& in) {
                                              return cut_where(in[0], in[1],
                                                               multiply(share, sum(in[1], {1})));
                                            }));
}

// Runs the graph of a filter if a row needs it.
Value keep_on_demand(const FilterStep& step) {
  const FilteredRows& rows = step.rows;
  const std::vector<Value> operands{rows.z, rows.weight, rows.kept, step.demand};
  OnDemand once("filter", axes_of(operands), step.demand);
  const Value kept = once.state(rows.kept);
  const FilteredRows inner{once.outside(rows.z), once.outside(rows.weight), kept};
  const Value made = step.filter.graph(inner, convert(once.demand(), step.filter.dtype()));
  const Value off = less_equal(once.demand(), full_like(once.demand(), 0));
  return once.run({logical_and(kept, logical_or(column(off), made))})[0];
}

// Filters that have a form without a sort.
struct CutForm {
  std::string_view name;
  Value (*kept)(const FilterStep& step);
};
constexpr CutForm kCutForms[] = {{"top_k", cut_top_k}, {"top_p", cut_top_p}};

} // namespace

Value kept_ids(const DrawRequest& ask, Value z, Value weight, Value active) {
  graph::Graph& graph = *z.graph;
  const Shape row{z.dim(0)};
  const Value allowed = greater(z, full_like(z, -std::numeric_limits<double>::infinity()));
  const Value least = graph::full(graph, row, 1e-30f); // a demand is positive, also for share 0
  FilteredRows rows{z, weight, allowed};
  Value key;
  for (const RowFilter& own : ask.filters) {
    const Value on = logical_and(active, own.filter->is_on(own.setting, z.dim(1)));
    const Value demand =
        select(on, maximum(convert(own.setting, DType::f32), least), zeros(graph, row));
    const CutForm* cut = find_named(kCutForms, own.filter->name(), &CutForm::name);
    if (cut != nullptr && !key.defined()) key = order_key(z);
    const FilterStep step{*own.filter, demand, rows, key, &own == ask.filters.data()};
    rows.kept = logical_and(rows.kept, cut == nullptr ? keep_on_demand(step) : cut->kept(step));
  }
  return rows.kept;
}

// token_statistics draws from the ids that the filters leave, by the inverse distribution function
// or as the largest noisy logit.

using graph::Value;
using namespace graph::ops;

namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

// Returns which rows draw: the ones whose temperature is > 0 and large enough to divide by.
Value draws(Value temperature) {
  const Value positive = greater(temperature, full_like(temperature, 0));
  const Value one = full_like(temperature, 1);
  return logical_and(positive, is_finite(divide(one, select(positive, temperature, one))));
}

struct Shaped {
  Value prob, margin, entropy;
};

// Returns statistics of the distribution weight / sum(weight), where weight is 0 for ids that are
// not kept. gap: z - largest z.
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
  std::vector<Value> operands{demand, best, logits, active, ask.uniform};
  for (const RowFilter& own : ask.filters) operands.push_back(own.setting);
  if (ask.noise.defined()) operands.push_back(ask.noise);
  OnDemand once("draw", axes_of(operands), demand);
  const Value greedy = once.state(best);
  const Value inner_logits = once.outside(logits), inner_active = once.outside(active);
  DrawRequest outer = ask;
  outer.temperature = Value{};
  DrawRequest inner = outer.with([&](Value value) { return once.outside(value); });
  inner.temperature = once.demand();
  const Drawn made = draw_rows(inner, inner_logits, greedy, inner_active);
  return {once.run({made.id})[0], none, none, none};
}

} // namespace dllm::pjrt
