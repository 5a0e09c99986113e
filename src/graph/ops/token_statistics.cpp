// token_statistics: computes the statistics of each row of logits that decoding needs, without
// copying (rows, vocab) to the host. It has no gradient.

#include "graph/filters/filter.h"
#include "graph/ops/build.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

namespace dllm::graph {
namespace {

using namespace ops;

struct TokenStatisticsOperands {
  HeadOperands head;
  int count, temperature;
  std::vector<const DrawFilter*> filters;
  int first_filter, uniform, noise, banned, size;
};

TokenStatisticsOperands token_statistics_operands(const Attributes& attributes) {
  OperandOrder order(2);
  TokenStatisticsOperands at{};
  at.head = head_operands(attributes, order);
  at.count = order.take(attributes.flag("has_count"));
  at.temperature = order.take();
  at.filters = named_filters(attributes.text("filters"));
  at.first_filter = order.count();
  for (size_t i = 0; i < at.filters.size(); ++i) order.take();
  at.uniform = order.take();
  at.noise = order.take(attributes.flag("has_noise"));
  at.banned = order.take(attributes.flag("has_banned"));
  at.size = order.count();
  return at;
}

Types token_statistics_types(const OpCall& call) {
  const TokenStatisticsOperands at = token_statistics_operands(call.attributes);
  expect_inputs(call, static_cast<size_t>(at.size));
  expect_head(call, at.head);
  const int64_t rows = call.inputs[0].shape.dim(0), vocab = call.inputs[1].shape.dim(0);
  expect_row_values(call, at.count, "count", DType::i32, Shape{});
  expect_row_values(call, at.temperature, "temperature", DType::f32, Shape{rows});
  for (size_t i = 0; i < at.filters.size(); ++i) {
    const DrawFilter& filter = *at.filters[i];
    expect_row_values(call, at.first_filter + static_cast<int>(i), filter.name().c_str(),
                      filter.dtype(), Shape{rows});
  }
  expect_row_values(call, at.uniform, "uniform", DType::f32, Shape{rows});
  expect_row_values(call, at.noise, "noise", DType::f32, Shape{rows, vocab});
  const bool own = at.banned >= 0 && call.inputs[static_cast<size_t>(at.banned)].shape.rank() == 2;
  expect_row_values(call, at.banned, "banned", DType::u8, own ? Shape{rows, vocab} : Shape{vocab});
  const int64_t top = call.attributes.integer("top");
  if (top < 1 || top > vocab) fail_op(call, fmt::format("top {} is not in 1..{}", top, vocab));
  const ValueType number{Shape{rows}, DType::f32, {}}, id{Shape{rows}, DType::i32, {}};
  return {id,
          number,
          number,
          number,
          {Shape{rows, top}, DType::i32, {}},
          {Shape{rows, top}, DType::f32, {}},
          id,
          number,
          number,
          number,
          number};
}

Value column(Value row) {
  return reshape(row, Shape{row.dim(0), 1});
}

// Returns u8(rows, vocab): the ids that a filter leaves. Where it is off, all of them stay.
Value filtered(const DrawFilter& filter, const FilteredRows& rows, Value setting) {
  const Value off = column(logical_not(filter.is_on(setting, rows.z.dim(1))));
  return logical_and(rows.kept, logical_or(off, filter.graph(rows, setting)));
}

// Returns the first kept id at which the running sum of weights exceeds uniform * total, else the
// last kept id.
Value draw_id(Graph& graph, Value z, Value kept, Value uniform) {
  const Value none = full_like(z, 0), id = iota(graph, z.shape(), DType::i32, 1);
  const Value weight = select(kept, exp(subtract(z, max(z, {1}, true))), none);
  const Value total = sum(weight, {1}, true);
  const Value passed =
      logical_and(kept, greater(cumsum(weight, 1), multiply(column(uniform), total)));
  const Value hit = convert(passed, DType::i32);
  const Value last = max(select(kept, id, full_like(id, -1)), {1});
  const Value any = greater(max(hit, {1}), full_like(last, 0));
  return select(any, argmax(hit, 1), last);
}

// Returns the kept id with the largest sum of logit and noise.
Value noisy_id(Value z, Value kept, Value noise) {
  const Value lowest = full_like(z, -std::numeric_limits<double>::infinity());
  return argmax(select(kept, add(z, noise), lowest), 1);
}

struct Shaped {
  Value prob, margin, entropy; // (rows)
};

// Returns statistics of softmax(z) over the kept ids.
Shaped shaped_statistics(Value z, Value kept, Value draw) {
  const Value none = full_like(z, 0);
  const Value weight = select(kept, exp(subtract(z, max(z, {1}, true))), none);
  const Value p = divide(weight, sum(weight, {1}, true));
  const Value seen = greater(p, none);
  const Value terms = multiply(p, log(select(seen, p, full_like(z, 1))));
  const Shape rows = draw.shape();
  const int64_t most = std::min<int64_t>(2, z.dim(1));
  const Value best = top_k(p, most).values;
  const auto place = [&](int64_t i) { return reshape(slice_axis(best, 1, i, i + 1), rows); };
  const Value first = place(0);
  return {reshape(take_along(p, column(draw), 1), rows),
          most < 2 ? first : subtract(first, place(1)), negate(sum(terms, {1}))};
}

std::vector<Value> token_statistics_plain(Graph& graph, const Node& node,
                                          std::span<const Value> inputs) {
  const TokenStatisticsOperands at = token_statistics_operands(node.attributes);
  const auto given = [&](int index) {
    return index >= 0 ? inputs[static_cast<size_t>(index)] : Value{};
  };
  Value logits = head_logits(at.head, inputs);
  const Value lowest = full_like(logits, -std::numeric_limits<double>::infinity()),
              none = full_like(logits, 0);
  if (at.banned >= 0) {
    const Value ban = convert(given(at.banned), DType::i32);
    logits = select(not_equal(ban, full_like(ban, 0)), lowest, logits);
  }
  const Value use = rows_in_use(graph, logits.dim(0), given(at.count));
  const Value best = argmax(logits, 1), lse = log_sum_exp(logits);
  const Value seen = greater(logits, lowest), p = exp(subtract(logits, column(lse)));
  const Value entropy =
      subtract(lse, sum(select(seen, multiply(p, select(seen, logits, none)), none), {1}));
  const TopK tops = top_k(logits, node.attributes.integer("top"));
  const Value top_seen = greater(tops.values, slice_axis(lowest, 1, 0, tops.values.dim(1)));
  // `probability` takes logits (rows, any). It divides by the sum, or subtracts the log-sum-exp.
  const Value most = max(logits, {1}, true);
  const Value total = sum(exp(subtract(logits, most)), {1}, true);
  const bool as_softmax = node.attributes.has("as_softmax");
  const auto probability = [&](Value z) {
    return as_softmax ? divide(exp(subtract(z, most)), total) : exp(subtract(z, column(lse)));
  };
  const Value top_probs = probability(tops.values);

  const Value temperature = given(at.temperature),
              greedy = less_equal(temperature, full_like(temperature, 0));
  const Value divisor = column(select(greedy, full_like(temperature, 1), temperature));
  const Value z = divide(logits, divisor);
  FilteredRows rows_left{z, exp(subtract(z, max(z, {1}, true))), seen};
  for (size_t i = 0; i < at.filters.size(); ++i) {
    const Value setting = given(at.first_filter + static_cast<int>(i));
    rows_left.kept = filtered(*at.filters[i], rows_left, setting);
  }
  const Value kept = rows_left.kept;
  const Value drawn = at.noise >= 0 ? noisy_id(z, kept, given(at.noise))
                                    : draw_id(graph, z, kept, given(at.uniform));
  const Value draw = select(greedy, best, drawn);
  const Value zero = full_like(lse, 0);
  const Shaped shaped =
      node.attributes.flag("shaped") ? shaped_statistics(z, kept, draw) : Shaped{zero, zero, zero};
  const auto prob_of = [&](Value id) {
    return reshape(probability(take_along(logits, column(id), 1)), lse.shape());
  };
  const auto rows = [&](Value x) {
    return select(x.rank() == 2 ? column(use) : use, x, full_like(x, 0));
  };
  return {rows(best),
          rows(prob_of(best)),
          rows(lse),
          rows(entropy),
          rows(select(top_seen, tops.indices, full_like(tops.indices, 0))),
          rows(top_probs),
          rows(draw),
          rows(prob_of(draw)),
          rows(shaped.prob),
          rows(shaped.margin),
          rows(shaped.entropy)};
}

constexpr OpDef kTokenStatisticsOps[] = {{.name = "token_statistics",
                                          .infer = token_statistics_types,
                                          .stops_gradient = true,
                                          .decompose = token_statistics_plain}};

} // namespace

namespace ops {
std::span<const OpDef> token_statistics_ops() {
  return kTokenStatisticsOps;
}
} // namespace ops

TokenStatistics token_statistics(const TokenStatisticsInputs& in, int64_t top) {
  std::vector<Value> inputs{in.x, in.weight};
  for (Value optional : {in.bias, in.scale, in.count}) {
    if (optional.defined()) inputs.push_back(optional);
  }
  inputs.push_back(in.temperature);
  std::string filters;
  for (const auto& [name, setting] : in.filters) {
    filters += (filters.empty() ? "" : ",") + name;
    inputs.push_back(setting);
  }
  inputs.push_back(in.uniform);
  if (in.noise.defined()) inputs.push_back(in.noise);
  if (in.banned.defined()) inputs.push_back(in.banned);
  Attributes attributes{{"top", top},
                        {"has_bias", in.bias.defined()},
                        {"has_scale", in.scale.defined()},
                        {"has_count", in.count.defined()},
                        {"has_noise", in.noise.defined()},
                        {"has_banned", in.banned.defined()},
                        {"filters", filters},
                        {"shaped", in.shaped},
                        {"softcap", static_cast<double>(in.softcap)}};
  if (in.as_softmax) attributes.set("as_softmax", true);
  const auto made = apply_all("token_statistics", inputs, std::move(attributes));
  return {made[0], made[1], made[2], made[3], made[4], made[5],
          made[6], made[7], made[8], made[9], made[10]};
}

} // namespace dllm::graph
