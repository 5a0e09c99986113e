// DoRA (Liu et al. 2024), as in PEFT: V = W + factor B A, and y += scale x (m / |V| V - W)^T. |V|
// is the norm of each row of V and has no gradient. m begins as |W|.

#include "graph/ops.h"
#include "model/adapters/kinds/kind_table.h"
#include "model/adapters/kinds/low_rank.h"

#include <algorithm>
#include <cmath>

namespace dllm::model {
namespace {

constexpr std::string_view kLengthSuffix = ".lora_m";
constexpr float kLeastSquare = 1e-30f; // of the norm of a row of zeros

std::optional<Shape> length_shape(const AdaptedMatrix& matrix) {
  return Shape{matrix.out};
}

// Returns the norms of the rows of the matrix.
Tensor first_lengths(const FirstValues& of) {
  Tensor made(DType::f32, {of.out});
  const float* row = of.matrix;
  for (float& norm : made.mutable_as<float>()) {
    double sum = 0;
    for (const float* end = row + of.in; row != end; ++row) sum += static_cast<double>(*row) * *row;
    norm = static_cast<float>(std::sqrt(sum));
  }
  return made;
}

// Returns the norms of the rows of W + factor B A, f32(out).
graph::Value norms_of(const AdapterPass& pass) {
  const Linear& linear = pass.linear;
  const NamedParam down = pass.adapter.tensor(kDownSuffix), up = pass.adapter.tensor(kUpSuffix);
  graph::Graph& graph = *linear.weight.graph;
  const int64_t out = up.value.dim(0);
  const graph::Value rows = graph::iota(graph, {out}, DType::i32, 0);
  const graph::Value weight = graph::take(linear.weight, rows, linear.scale); // f32
  const graph::Value sum = graph::add(weight, scaled(graph::dot(up.value, down.value), up.factor));
  graph::Value squares = graph::sum(graph::multiply(sum, sum), {1});
  if (is_summed(linear)) squares = graph::all_reduce(squares, graph::AxisSet(graph::Axis::tensor));
  return graph::stop_gradient(
      graph::sqrt(graph::maximum(squares, graph::scalar(graph, kLeastSquare))));
}

// A length multiplies the product without the bias.
graph::Value turned_product(const AdapterPass& pass) {
  const NamedParam length = pass.adapter.tensor(kLengthSuffix);
  const graph::Value in = adapter_input(pass.linear, pass.adapter, pass.x);
  const graph::Value low = low_rank_product(pass, in);
  // As PEFT, the lengths multiply the product of the same inputs.
  const graph::Value base =
      in == pass.x ? pass.base : graph::linear(in, pass.linear.weight, {}, pass.linear.scale);
  const graph::Value by = graph::divide(length.value, norms_of(pass));
  return scaled(graph::subtract(graph::multiply(graph::add(base, low), by), base), length.factor);
}

// Adds base += scale (m / |V| V - W), where V = W + factor B A.
void add_turned(const AdapterNumbers& numbers, const Tensor& weight, Tensor& base) {
  const AdapterNumbers::Entry& length = numbers.at(kLengthSuffix);
  Tensor sum = weight.clone();
  add_low_rank_product(numbers, sum);
  const int64_t out = base.shape()[0], in = base.shape()[1];
  float* to = base.mutable_as<float>().data();
  const float *w = weight.as<float>().data(), *v = sum.as<float>().data(),
              *m = length.values.as<float>().data();
  const float share = length.factor;
  for (int64_t o = 0; o < out; ++o) {
    double squares = 0;
    for (int64_t i = 0; i < in; ++i) squares += static_cast<double>(v[o * in + i]) * v[o * in + i];
    constexpr double kLeastNorm = 1e-20; // of a row of zeros
    const auto by = static_cast<float>(m[o] / std::max(std::sqrt(squares), kLeastNorm));
    for (int64_t i = 0; i < in; ++i) to[o * in + i] += share * (by * v[o * in + i] - w[o * in + i]);
  }
}

std::vector<OptionSpec> direction_options() {
  std::vector<OptionSpec> options = low_rank_options();
  options.push_back(
      option_bool("dora", false,
                  "DoRA: each row of the sum of a matrix and its product gets a length that is "
                  "trained too. Every pass computes the norms of the rows again, until the "
                  "adapter is merged."));
  return options;
}

constexpr AdapterTensor kDirectionTensors[] = {
    kDownTensor,
    up_tensor(false),
    // The scale multiplies the change of the whole product, and not B A inside of the norm.
    {.suffix = kLengthSuffix,
     .ending = ".lora_magnitude_vector",
     .other_ending = ".lora_magnitude_vector.weight",
     .shape = length_shape,
     .first = first_lengths,
     .reads_matrix = true,
     .has_scale = true,
     .is_of_flag = true}};

} // namespace

constinit const AdapterKind adapter_files::kDirection = {
    .name = "dora",
    .title = "DoRA",
    .flag = "dora",
    .leave_out = "leave dora out",
    .tensors = kDirectionTensors,
    .options = direction_options,
    .read_options = read_low_rank_options,
    .forms = low_rank_forms,
    .complete = nullptr,
    .describe = nullptr,
    .graph = {.output = turned_product, .reads_base = [](const Adapter&) { return true; }},
    .merge = {.weight = add_turned, .reads_weights = "its lengths depend on"},
    .peft = {.type = "LORA",
             .flag = "use_dora",
             .keys = {},
             .read = read_lora_config,
             .write = write_lora_config,
             .shape_hint = kLoraShapeHint}};

} // namespace dllm::model
