// Reductions, ordering, indexing, random bits.

#include "unit/graph/reference/arrays.h"

#include "base/random.h"
#include "graph/op.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dllm::graph::test {
namespace {

Results op_reduce(const LocalCall& call) {
  const std::string_view op = call.node.op->name;
  const Array& x = *call.in[0];
  const auto& axes = call.node.attributes.list("axes");
  Shape kept = x.type.shape;
  for (int64_t axis : axes) kept = kept.with_dim(axis, 1);
  Array y = empty(call.result());
  std::vector<bool> seen(y.data.size());
  each(x.type.shape, [&](Index at, size_t flat) {
    for (int64_t axis : axes) at[zu(axis)] = 0;
    const size_t to = flat_of(kept, at);
    const double v = x.data[flat];
    double& sum = y.data[to];
    if (op == "sum")
      sum = wrap(y.type.dtype, sum + v);
    else if (!seen[to])
      sum = v;
    else
      sum = op == "max" ? pick(sum, v, sum > v) : pick(sum, v, sum < v);
    seen[to] = true;
  });
  return {y};
}

// Larger, NaN counting as the largest.
bool above(double a, double b) {
  return std::isnan(a) ? !std::isnan(b) : a > b;
}

Results op_argmax(const LocalCall& call) {
  const Array& x = *call.in[0];
  const auto axis = call.node.attributes.integer("axis");
  Array y = empty(call.result());
  each(y.type.shape, [&](const Index& at, size_t flat) {
    Index source = at;
    source.insert(source.begin() + axis, 0);
    double best = x.data[flat_of(x.type.shape, source)];
    for (int64_t i = 1; i < x.type.shape.dim(axis); ++i) {
      source[zu(axis)] = i;
      const double v = x.data[flat_of(x.type.shape, source)];
      if (!above(v, best)) continue;
      best = v;
      y.data[flat] = static_cast<double>(i);
    }
  });
  return {y};
}

Results op_cumsum(const LocalCall& call) {
  Array y{call.result(), call.in[0]->data};
  const auto axis = zu(call.node.attributes.integer("axis"));
  each(y.type.shape, [&](Index at, size_t flat) {
    if (at[axis] == 0) return;
    --at[axis];
    y.data[flat] = wrap(y.type.dtype, y.data[flat] + y.data[flat_of(y.type.shape, at)]);
  });
  return {y};
}

Results sorted(const LocalCall& call, bool descending, int64_t kept) {
  const Array& x = *call.in[0];
  const int64_t n = x.type.shape.dim(-1), rows = n == 0 ? 0 : x.type.shape.count() / n;
  Array values = empty(call.result(0)), indices = empty(call.result(1));
  std::vector<int64_t> order(zu(n));
  for (int64_t r = 0; r < rows; ++r) {
    const double* row = x.data.data() + r * n;
    std::iota(order.begin(), order.end(), int64_t{0});
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return descending ? above(row[a], row[b]) : above(row[b], row[a]);
    });
    for (int64_t i = 0; i < kept; ++i) {
      values.data[zu(r * kept + i)] = row[order[zu(i)]];
      indices.data[zu(r * kept + i)] = static_cast<double>(order[zu(i)]);
    }
  }
  return {values, indices};
}

Results op_sort(const LocalCall& call) {
  return sorted(call, call.node.attributes.flag("descending"), call.in[0]->type.shape.dim(-1));
}
Results op_top_k(const LocalCall& call) {
  return sorted(call, true, call.node.attributes.integer("k"));
}

// --- indexing ---
Results op_take(const LocalCall& call) {
  const Array& table = *call.in[0];
  const int64_t n = table.type.shape.dim(0), row = table.type.shape.count() / n;
  Array y = empty(call.result());
  for (size_t i = 0; i < call.in[1]->data.size(); ++i) {
    const auto at = std::clamp<int64_t>(static_cast<int64_t>(call.in[1]->data[i]), 0, n - 1);
    const double scale = call.in.size() > 2 ? call.in[2]->data[zu(at)] : 1;
    for (int64_t j = 0; j < row; ++j)
      y.data[i * zu(row) + zu(j)] = table.data[zu(at * row + j)] * scale;
  }
  return {y};
}

Results op_take_along(const LocalCall& call) {
  const Array& x = *call.in[0];
  const Array& indices = *call.in[1];
  const auto axis = zu(call.node.attributes.integer("axis"));
  Array y = empty(call.result());
  each(y.type.shape, [&](Index at, size_t flat) {
    at[axis] = std::clamp<int64_t>(static_cast<int64_t>(indices.data[flat]), 0,
                                   x.type.shape.dims()[axis] - 1);
    y.data[flat] = x.data[flat_of(x.type.shape, at)];
  });
  return {y};
}

Results op_scatter(const LocalCall& call) {
  Array y{call.result(), call.in[0]->data};
  const bool adds = std::string_view(call.node.op->name) == "scatter_add";
  const int64_t n = y.type.shape.dim(0), row = n == 0 ? 0 : y.type.shape.count() / n;
  for (size_t i = 0; i < call.in[1]->data.size(); ++i) {
    const auto at = static_cast<int64_t>(call.in[1]->data[i]);
    if (at < 0 || at >= n) continue;
    for (int64_t j = 0; j < row; ++j) {
      double& to = y.data[zu(at * row + j)];
      const double update = call.in[2]->data[i * zu(row) + zu(j)];
      to = adds ? wrap(y.type.dtype, to + update) : update;
    }
  }
  return {y};
}

Results op_random_bits(const LocalCall& call) {
  Array y = empty(call.result());
  const std::vector<double>& words = call.in[0]->data;
  const size_t width = y.data.size() / (words.size() / 2);
  for (size_t i = 0; i < y.data.size(); ++i) {
    const size_t row = i / width;
    const Key key{static_cast<uint32_t>(words[2 * row]), static_cast<uint32_t>(words[2 * row + 1])};
    y.data[i] = random_bits_at(key, i % width);
  }
  return {y};
}

constexpr Entry kTable[] = {
    {"sum", op_reduce},          {"max", op_reduce},          {"min", op_reduce},
    {"argmax", op_argmax},       {"cumsum", op_cumsum},       {"sort", op_sort},
    {"top_k", op_top_k},         {"take", op_take},           {"take_along", op_take_along},
    {"scatter_add", op_scatter}, {"scatter_set", op_scatter}, {"random_bits", op_random_bits},
};

} // namespace

LocalOp find_order_op(std::string_view op) {
  return find_entry(kTable, op);
}

} // namespace dllm::graph::test
