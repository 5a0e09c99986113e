// Adafactor (Shazeer & Stern 2018, algorithms 4 and 5, as optax computes it). The second moment of
// a matrix is kept as the means of its rows r and of its columns c:
//   d_t = 1 - t^-decay,  V = d_t V + (1 - d_t)(g^2 + 1e-30),  V_ij = r_i c_j / mean(r),
//   u = g / sqrt(V),  u <- u / max(1, rms(u) / clip),
//   p <- p - lr max(1e-3, rms(p)) u - lr weight_decay p.
// Vectors and small matrices keep all of V. rms and means are taken over a logical tensor. With
// compat = dllm-jax p loses weight_decay p, which does not depend on lr.

#include "graph/ops.h"
#include "train/optimizers/table.h"

#include <cmath>

namespace dllm::train::optimizer_files {
namespace {

using graph::Value;

enum AdafactorScalar { kFactorLr, kFactorKeep, kFactorNew, kFactorWeightDecay };

constexpr float kSquareFloor = 1e-30f;   // epsilon 1 of the paper
constexpr float kParameterFloor = 1e-3f; // epsilon 2
// Smaller than every mean of a real update, so that an update that is left out does not divide 0 by
// 0.
constexpr float kMeanFloor = 1e-37f;

bool is_factored(const Options& options, const model::ParamSpec& parameter) {
  const Shape& element = parameter.element;
  if (element.rank() < 2) return false;
  const int64_t least = options.i64("factor_from");
  for (const model::ParamPiece& piece : parameter.pieces) {
    const int64_t rows = element.rank() > 2 ? element[element.rank() - 2] : piece.rows;
    if (rows < least) return false;
  }
  return element[element.rank() - 1] >= least;
}

std::vector<StateArray> adafactor_state(const Options& options, const model::ParamSpec& parameter) {
  if (!is_factored(options, parameter)) return {{"square", like_parameter(parameter)}};
  return {{"rows", per_row(parameter)}, {"columns", per_column(parameter)}};
}

std::vector<double> adafactor_scalars(const Options& options, const UpdateInfo& info) {
  const double fresh = std::pow(static_cast<double>(info.number), -options.f64("factor_decay"));
  return {info.lr, 1.0 - fresh, fresh, info.weight_decay};
}

// The part of a value that belongs to one logical tensor of every layer. Experts have their own
// axis and stay together.
struct TensorRows {
  int64_t axis = 0; // of the rows in the parameter
  int64_t begin = 0, end = 0;
  size_t number = 0; // of the piece
};

std::vector<TensorRows> tensors_of(const model::ParamSpec& layout) {
  const int64_t stacked = layout.layers > 0 ? 1 : 0, rank = layout.element.rank();
  if (rank != 2) return {{stacked, 0, layout.element[0], 0}};
  std::vector<TensorRows> made;
  int64_t begin = 0;
  for (size_t i = 0; i < layout.pieces.size(); ++i) {
    const int64_t end = begin + layout.pieces[i].rows;
    made.push_back({stacked, begin, end, i});
    begin = end;
  }
  return made;
}

std::vector<int64_t> axes_of_tensor(const model::ParamSpec& layout, const Value& x) {
  if (layout.element.rank() == 1) return {x.rank() - 1};
  return {x.rank() - 2, x.rank() - 1};
}

Value root_mean_square(const model::ParamSpec& layout, Value x) {
  return graph::sqrt(graph::mean(graph::multiply(x, x), axes_of_tensor(layout, x), true));
}

Value inverse_root(Value x) {
  return graph::rsqrt(graph::maximum(x, graph::scalar(*x.graph, kMeanFloor)));
}

class AdafactorUpdate {
public:
  explicit AdafactorUpdate(const UpdateContext& context) : context_(context) {}

  ParameterOutputs operator()(const ParameterInputs& in) const {
    const Value gradient = scaled_gradient(context_, in.gradient);
    const Value square = graph::add(graph::multiply(gradient, gradient),
                                    graph::scalar(context_.graph, kSquareFloor));
    ParameterOutputs next;
    Value whole; // 1 / sqrt(V) where it is kept
    if (in.state.size() == 1) {
      next.state = {moving(in.state[0], square)};
      whole = inverse_root(next.state[0]);
    } else {
      const int64_t rank = square.rank();
      next.state = {moving(in.state[0], graph::mean(square, {rank - 1})),
                    moving(in.state[1], column_means(*in.layout, square))};
    }
    std::vector<Value> parts;
    for (const TensorRows& rows : tensors_of(*in.layout)) {
      const auto cut = [&](Value x) {
        return graph::slice_axis(x, rows.axis, rows.begin, rows.end);
      };
      const Value g = cut(gradient);
      const Value direction =
          whole.defined() ? graph::multiply(g, cut(whole))
                          : factored(*in.layout, rows, g, cut(next.state[0]), next.state[1]);
      parts.push_back(moved(in, cut(in.parameter), direction));
    }
    next.parameter =
        parts.size() == 1 ? parts[0] : graph::concat(parts, tensors_of(*in.layout)[0].axis);
    return next;
  }

private:
  Value scalar(AdafactorScalar which) const { return scalar_at(context_.scalars, which); }

  Value moving(Value old, Value fresh) const {
    return graph::add(graph::multiply(old, scalar(kFactorKeep)),
                      graph::multiply(graph::reshape(fresh, old.shape()), scalar(kFactorNew)));
  }

  // (.., tensors, in), in the layout of per_column().
  static Value column_means(const model::ParamSpec& layout, Value square) {
    const int64_t rank = square.rank();
    if (layout.element.rank() > 2) return graph::mean(square, {rank - 2});
    std::vector<Value> means;
    for (const TensorRows& rows : tensors_of(layout)) {
      means.push_back(graph::mean(graph::slice_axis(square, rows.axis, rows.begin, rows.end),
                                  {rank - 2}, true));
    }
    return means.size() == 1 ? means[0] : graph::concat(means, rank - 2);
  }

  // g / sqrt(r c / mean(r)). rows (.., out); columns (.., tensors, in).
  static Value factored(const model::ParamSpec& layout, const TensorRows& rows, Value g, Value row,
                        Value columns) {
    const int64_t rank = g.rank();
    const Value mean =
        graph::maximum(graph::mean(row, {rank - 2}, true), graph::scalar(*g.graph, kMeanFloor));
    const Shape tall = g.shape().with_dim(rank - 1, 1), wide = g.shape().with_dim(rank - 2, 1);
    const auto number = static_cast<int64_t>(rows.number);
    const Value column = layout.element.rank() > 2
                             ? columns
                             : graph::slice_axis(columns, rank - 2, number, number + 1);
    const Value by_row =
        graph::multiply(g, graph::reshape(inverse_root(graph::divide(row, mean)), tall));
    return graph::multiply(by_row, graph::reshape(inverse_root(column), wide));
  }

  // Returns one logical tensor after its step.
  Value moved(const ParameterInputs& in, Value p, Value direction) const {
    const Value one = graph::scalar(context_.graph, 1.0f);
    const auto clip = static_cast<float>(context_.options.f64("factor_clip"));
    const Value large =
        graph::divide(root_mean_square(*in.layout, direction), graph::scalar(context_.graph, clip));
    Value rate = graph::divide(scalar(kFactorLr), graph::maximum(one, large));
    if (context_.options.boolean("factor_relative")) {
      rate = graph::multiply(rate, graph::maximum(root_mean_square(*in.layout, p),
                                                  graph::scalar(context_.graph, kParameterFloor)));
    }
    Value next = graph::subtract(p, graph::multiply(direction, rate));
    if (!in.decay) return next;
    Value decay = scalar(kFactorWeightDecay);
    if (context_.options.str("compat") != "dllm-jax")
      decay = graph::multiply(scalar(kFactorLr), decay);
    return graph::subtract(next, graph::multiply(p, decay));
  }

  const UpdateContext& context_;
};

std::vector<ParameterOutputs> adafactor_graph(const UpdateContext& context,
                                              std::span<const ParameterInputs> parameters) {
  const AdafactorUpdate update(context);
  std::vector<ParameterOutputs> made;
  for (const ParameterInputs& in : parameters) made.push_back(update(in));
  return made;
}

} // namespace

Optimizer adafactor() {
  return {
      .name = "adafactor",
      .options =
          {
              option_f64("factor_decay", 0.8, 0.0, 1.0,
                         "Adafactor's exponent: the share of a new square is t^-decay."),
              option_f64("factor_clip", 1.0, 1e-6, 1e12,
                         "Adafactor's largest root mean square of a tensor's step, before lr."),
              option_i64("factor_from", 128, 1, 1 << 30,
                         "Adafactor keeps sums of rows and columns for matrices whose sides have "
                         "at least this many numbers, and all squares for others."),
              option_bool("factor_relative", true,
                          "Adafactor's lr is a share of the root mean square of each tensor."),
          },
      // With these scalars and a gradient of 0 the moments are kept.
      .scalars =
          {
              {"lr", 0.0f},
              {"keep", 1.0f},
              {"new", 0.0f},
              {"weight_decay", 0.0f},
          },
      .whole_matrices = true,
      .state = adafactor_state,
      .step_scalars = adafactor_scalars,
      .update = adafactor_graph,
  };
}

} // namespace dllm::train::optimizer_files
