#include "unit/graph/reference_evaluator.h"

#include "base/error.h"
#include "graph/op.h"
#include "graph/ops/scan.h"
#include "graph/passes.h"
#include "unit/graph/reference_ops.h"

#include <algorithm>
#include <string>

namespace dllm::graph::test {
namespace {

using PerRank = std::vector<Array>; // one array per rank

class Evaluator {
public:
  Evaluator(Axis axis, size_t ranks) : axis_(axis), ranks_(ranks) {}

  std::vector<PerRank> run(const Graph& graph, const std::vector<PerRank>& inputs) {
    std::vector<PerRank> values(static_cast<size_t>(graph.value_count()));
    for (size_t i = 0; i < inputs.size(); ++i) values[at(graph.inputs()[i].value)] = inputs[i];
    for (const Node& node : graph.nodes()) {
      std::vector<PerRank> in;
      for (int32_t id : node.inputs) in.push_back(values[at(id)]);
      const std::vector<PerRank> out = node_results(graph, node, in);
      for (size_t i = 0; i < out.size(); ++i) {
        check(graph, node, i, out[i]);
        values[at(node.outputs[i])] = out[i];
      }
    }
    std::vector<PerRank> results;
    for (const GraphOutput& output : graph.outputs()) results.push_back(values[at(output.value)]);
    return results;
  }

private:
  static size_t at(int32_t id) { return static_cast<size_t>(id); }

  // A value that is said to be equal over the axis must be.
  void check(const Graph& graph, const Node& node, size_t i, const PerRank& value) const {
    const ValueType& type = graph.type(node.outputs[i]);
    for (size_t r = 0; r < ranks_; ++r) {
      if (static_cast<int64_t>(value[r].data.size()) != type.shape.count()) {
        fail(Code::internal, "oracle: {} gave {} numbers for {}", node.op->name,
             value[r].data.size(), type.text());
      }
      if (type.axes.has(axis_) || r == 0) continue;
      for (size_t e = 0; e < value[r].data.size(); ++e) {
        const double a = value[0].data[e], b = value[r].data[e];
        if (a == b || (a != a && b != b)) continue;
        fail(Code::internal, "oracle: {} is said to be equal over {} but is not", node.op->name,
             axis_name(axis_));
      }
    }
  }

  std::vector<PerRank> node_results(const Graph& graph, const Node& node,
                                    const std::vector<PerRank>& in) {
    const std::string_view name = node.op->name;
    if (name == "scan") return scan(node, in);
    if (name == "while") return loop(node, in);
    if (is_collective(name)) return {collective(graph, node, in.empty() ? PerRank{} : in[0])};
    const LocalOp op = find_local_op(name);
    if (op == nullptr) fail(Code::unimplemented, "oracle: no operation {}", name);
    std::vector<PerRank> results(node.outputs.size(), PerRank(ranks_));
    for (size_t r = 0; r < ranks_; ++r) {
      std::vector<const Array*> operands;
      for (const PerRank& value : in) operands.push_back(&value[r]);
      std::vector<Array> made = op({graph, node, operands});
      for (size_t i = 0; i < made.size(); ++i) results[i][r] = std::move(made[i]);
    }
    return results;
  }

  // --- control ---
  std::vector<PerRank> scan(const Node& node, const std::vector<PerRank>& in) {
    const ops::ScanPlan plan(node.attributes);
    const Graph& body = *node.bodies[0];
    std::vector<PerRank> state(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(plan.carry));
    std::vector<PerRank> stacked;
    for (size_t i = plan.carry; i < body.outputs().size(); ++i) {
      ValueType type = body.type(body.outputs()[i].value);
      type.shape = type.shape.with_front(plan.count);
      stacked.push_back(PerRank(
          ranks_, Array{type, std::vector<double>(static_cast<size_t>(type.shape.count()))}));
    }
    for (int64_t step = plan.begin; step < plan.end; ++step) {
      const int64_t row = plan.reverse ? plan.begin + plan.end - 1 - step : step;
      std::vector<PerRank> operands = state;
      for (size_t i = plan.carry; i < in.size(); ++i) {
        operands.push_back(plan.is_per_layer(i) ? rows(in[i], row, plan.count) : in[i]);
      }
      const std::vector<PerRank> out = run(body, operands);
      for (size_t i = 0; i < out.size(); ++i) {
        if (i < plan.carry)
          state[i] = out[i];
        else
          put_rows(stacked[i - plan.carry], out[i], row);
      }
    }
    state.insert(state.end(), stacked.begin(), stacked.end());
    return state;
  }

  static PerRank rows(const PerRank& stacked, int64_t row, int64_t count) {
    PerRank picked;
    for (const Array& array : stacked) {
      const auto size = static_cast<std::ptrdiff_t>(array.data.size()) / count;
      const auto first = array.data.begin() + row * size;
      picked.push_back({{array.type.shape.without(0), array.type.dtype, array.type.axes},
                        {first, first + size}});
    }
    return picked;
  }

  static void put_rows(PerRank& stacked, const PerRank& row_values, int64_t row) {
    for (size_t r = 0; r < stacked.size(); ++r) {
      const auto size = static_cast<std::ptrdiff_t>(row_values[r].data.size());
      std::copy(row_values[r].data.begin(), row_values[r].data.end(),
                stacked[r].data.begin() + row * size);
    }
  }

  std::vector<PerRank> loop(const Node& node, std::vector<PerRank> in) {
    const auto state = static_cast<size_t>(node.attributes.integer("state"));
    for (;;) {
      const PerRank go = run(*node.bodies[0], in)[0];
      bool any = false;
      for (const Array& decision : go) any = any || decision.data[0] != 0;
      if (!any) break;
      const std::vector<PerRank> next = run(*node.bodies[1], in);
      for (size_t i = 0; i < state; ++i) {
        for (size_t r = 0; r < ranks_; ++r) {
          if (go[r].data[0] != 0) in[i][r] = next[i][r];
        }
      }
    }
    in.resize(state);
    return in;
  }

  // --- mesh ---
  static bool is_collective(std::string_view name) {
    return name == "vary" || name == "all_reduce" || name == "all_reduce_max" ||
           name == "all_gather" || name == "reduce_scatter" || name == "all_to_all" ||
           name == "permute" || name == "axis_index";
  }

  PerRank collective(const Graph& graph, const Node& node, const PerRank& x) const {
    const std::string_view name = node.op->name;
    const ValueType& type = graph.type(node.outputs[0]);
    if (name == "vary") return x;
    if (name == "all_reduce" || name == "all_reduce_max") {
      bool ours = false;
      for (int64_t axis : node.attributes.list("axes"))
        ours = ours || static_cast<Axis>(axis) == axis_;
      if (!ours) return x;
      return name == "all_reduce" ? total(x) : largest(x);
    }
    const bool ours = static_cast<Axis>(node.attributes.integer("axis")) == axis_;
    PerRank y(ranks_);
    for (size_t r = 0; r < ranks_; ++r) {
      if (name == "axis_index") y[r] = {type, {ours ? static_cast<double>(r) : 0.0}};
    }
    if (name == "axis_index") return y;
    if (!ours) return x;
    if (name == "permute") {
      const auto& target = node.attributes.list("target_of_rank");
      for (size_t r = 0; r < ranks_; ++r) y[static_cast<size_t>(target[r])] = x[r];
      return y;
    }
    if (name == "all_gather") return PerRank(ranks_, join(x, node.attributes.integer("dim"), type));
    if (name == "reduce_scatter") {
      const PerRank summed = total(x);
      for (size_t r = 0; r < ranks_; ++r) y[r] = part(summed[r], node.attributes.integer("dim"), r);
      return y;
    }
    for (size_t r = 0; r < ranks_; ++r) { // all_to_all
      PerRank pieces;
      for (size_t s = 0; s < ranks_; ++s)
        pieces.push_back(part(x[s], node.attributes.integer("split_dim"), r));
      y[r] = join(pieces, node.attributes.integer("concat_dim"), type);
    }
    return y;
  }

  PerRank total(const PerRank& x) const {
    Array sum = x[0];
    for (size_t r = 1; r < ranks_; ++r) {
      for (size_t e = 0; e < sum.data.size(); ++e) sum.data[e] += x[r].data[e];
    }
    return PerRank(ranks_, sum);
  }

  PerRank largest(const PerRank& x) const {
    Array top = x[0];
    for (size_t r = 1; r < ranks_; ++r) {
      for (size_t e = 0; e < top.data.size(); ++e)
        top.data[e] = std::max(top.data[e], x[r].data[e]);
    }
    return PerRank(ranks_, top);
  }

  // Extents before, along and after a dimension.
  struct Cut {
    int64_t outer = 1, extent, inner = 1;
    Cut(const Shape& shape, int64_t dim) : extent(shape.dim(dim)) {
      for (int64_t i = 0; i < dim; ++i) outer *= shape.dim(i);
      for (int64_t i = dim + 1; i < shape.rank(); ++i) inner *= shape.dim(i);
    }
  };

  Array part(const Array& x, int64_t dim, size_t rank) const {
    const Cut cut(x.type.shape, dim);
    const int64_t own = cut.extent / static_cast<int64_t>(ranks_);
    Array y{{x.type.shape.with_dim(dim, own), x.type.dtype, x.type.axes}, {}};
    for (int64_t o = 0; o < cut.outer; ++o) {
      const auto first =
          x.data.begin() + (o * cut.extent + static_cast<int64_t>(rank) * own) * cut.inner;
      y.data.insert(y.data.end(), first, first + own * cut.inner);
    }
    return y;
  }

  static Array join(const PerRank& pieces, int64_t dim, const ValueType& type) {
    const Cut cut(pieces[0].type.shape, dim);
    Array y{type, {}};
    for (int64_t o = 0; o < cut.outer; ++o) {
      for (const Array& piece : pieces) {
        const auto first = piece.data.begin() + o * cut.extent * cut.inner;
        y.data.insert(y.data.end(), first, first + cut.extent * cut.inner);
      }
    }
    return y;
  }

  Axis axis_;
  size_t ranks_;
};

} // namespace

std::vector<std::vector<Tensor>> evaluate_ranks(const Graph& graph, Axis axis,
                                                const std::vector<std::vector<Tensor>>& inputs) {
  const auto plain = decompose(graph);
  std::vector<PerRank> operands(graph.inputs().size());
  for (const auto& rank : inputs) {
    if (rank.size() != operands.size()) {
      fail(Code::invalid_argument, "oracle: {} arrays for {} inputs", rank.size(), operands.size());
    }
    for (size_t i = 0; i < rank.size(); ++i) {
      operands[i].push_back(from_tensor(rank[i], graph.type(graph.inputs()[i].value)));
    }
  }
  const std::vector<PerRank> made = Evaluator(axis, inputs.size()).run(*plain, operands);
  std::vector<std::vector<Tensor>> results(inputs.size());
  for (const PerRank& value : made) {
    for (size_t r = 0; r < results.size(); ++r) results[r].push_back(to_tensor(value[r]));
  }
  return results;
}

std::vector<Tensor> evaluate(const Graph& graph, const std::vector<Tensor>& inputs) {
  return evaluate_ranks(graph, Axis::data, {inputs})[0];
}

bool has_reference(std::string_view op) {
  constexpr std::string_view kOwn[] = {"scan",       "while",          "vary",       "all_reduce",
                                       "all_gather", "reduce_scatter", "all_to_all", "permute",
                                       "axis_index", "all_reduce_max"};
  for (std::string_view own : kOwn) {
    if (op == own) return true;
  }
  return find_local_op(op) != nullptr || find_op(op).decompose != nullptr;
}

} // namespace dllm::graph::test
