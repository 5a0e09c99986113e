// torch/gated_deltanet: the gated delta rule from given q, k, v, in chunks and position by
// position, with its gradients, from a state, and cut in two; the causal convolution over a row and
// one position more; the gated norm.

#include "bare_graph.h"
#include "base/error.h"
#include "graph/ops.h"
#include "handlers.h"
#include "model/layers/delta_rule.h"
#include "runner.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <regex>

namespace dllm::parity {
namespace {

using graph::Value;

Tensor state_of(Case& c) {
  const Shape k = c.array("k").shape(), v = c.array("v").shape();
  return c.has("initial_state") ? c.array("initial_state")
                                : Tensor(DType::f32, {k[0], k[2], k[3], v[3]});
}

model::DeltaInputs rule_inputs(BareGraph& bare, Case& c, bool unit) {
  model::DeltaInputs in;
  in.q = bare.input("q", c.array("q"));
  in.k = bare.input("k", c.array("k"));
  in.v = bare.input("v", c.array("v"));
  in.g = bare.input("g", c.array("g"));
  in.beta = bare.input("beta", c.array("beta"));
  in.state = bare.input("state", state_of(c));
  if (unit) {
    in.q = model::unit_rows(in.q);
    in.k = model::unit_rows(in.k);
  }
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(in.q.dim(3))));
  in.q = graph::multiply(in.q, graph::scalar(*bare.graph, scale));
  return in;
}

void run_rule(Case& c, bool unit, int64_t chunk, Tolerance tolerance) {
  BareGraph bare("delta_rule");
  const model::DeltaOutputs made = model::delta_rule(rule_inputs(bare, c, unit), chunk);
  bare.graph->output("out", made.out);
  bare.graph->output("state", made.state);
  const std::vector<Tensor> results = bare.run(*c.topic().engine());
  const char* form = chunk == 1 ? "recurrent" : "chunk";
  const std::string what = std::string(form) + " " + std::to_string(chunk);
  c.close(tolerance, results[0], c.array(std::string("out_") + form), "out " + what);
  c.close(tolerance, results[1], c.array(std::string("state_") + form), "state " + what);
}

// The first half, then the second from the state that the pass over all kept of the first.
void run_cached(Case& c, bool unit, Tolerance tolerance) {
  const int64_t batch = c.array("q").shape()[0], seq = c.array("q").shape()[1], cut = seq / 2;
  if (cut == 0) return;
  BareGraph bare("delta_rule");
  model::DeltaInputs whole = rule_inputs(bare, c, unit), rest = whole;
  std::vector<int32_t> lengths(static_cast<size_t>(batch), static_cast<int32_t>(cut));
  whole.length = bare.input("length", Tensor::from(Shape{batch}, lengths));
  const model::DeltaOutputs first = model::delta_rule(whole);
  for (Value* part : {&rest.q, &rest.k, &rest.v, &rest.g, &rest.beta})
    *part = graph::slice_axis(*part, 1, cut, seq);
  rest.state = first.state;
  const model::DeltaOutputs second = model::delta_rule(rest);
  bare.graph->output("out",
                     graph::concat({graph::slice_axis(first.out, 1, 0, cut), second.out}, 1));
  bare.graph->output("state", second.state);
  const std::vector<Tensor> results = bare.run(*c.topic().engine());
  c.close(tolerance, results[0], c.array("out_recurrent"), "out cached");
  c.close(tolerance, results[1], c.array("state_recurrent"), "state cached");
}

void run_gradients(Case& c, bool unit, int64_t chunk, Tolerance tolerance) {
  if (!c.has("cotangent")) return;
  BareGraph bare("delta_rule");
  const model::DeltaInputs in = rule_inputs(bare, c, unit);
  const std::vector<std::string> names = {"q", "k", "v", "g", "beta"};
  const std::vector<Value> wrt(bare.values.begin(), bare.values.begin() + 5);
  const Value loss = graph::sum(graph::multiply(model::delta_rule(in, chunk).out,
                                                bare.input("cotangent", c.array("cotangent"))),
                                {0, 1, 2, 3});
  const std::vector<Value> gradients = graph::gradients(loss, wrt);
  for (size_t i = 0; i < names.size(); ++i) bare.graph->output(names[i], gradients[i]);
  const std::vector<Tensor> results = bare.run(*c.topic().engine());
  for (size_t i = 0; i < names.size(); ++i)
    c.close(tolerance, results[i], c.array("grad." + names[i]), "grad." + names[i]);
}

Tensor turned(const Tensor& x) { // (batch, channels, seq) -> (batch, seq, channels), and back
  const int64_t batch = x.shape()[0], rows = x.shape()[1], columns = x.shape()[2];
  Tensor made(DType::f32, {batch, columns, rows});
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < columns; ++i) {
        made.mutable_as<float>()[static_cast<size_t>((b * columns + i) * rows + r)] =
            x.as<float>()[static_cast<size_t>((b * rows + r) * columns + i)];
      }
    }
  }
  return made;
}

void run_convolution(Case& c, Tolerance tolerance) {
  const Tensor& weight = c.array("weight");
  const int64_t batch = c.array("x").shape()[0], channels = weight.shape()[0],
                width = weight.shape()[2], seq = c.array("x").shape()[2];
  BareGraph bare("convolution");
  const Value kernel = bare.input("weight", weight.reshaped({channels, width}));
  const Value rows = graph::concat({graph::full(*bare.graph, {batch, width - 1, channels}, 0.0f),
                                    bare.input("x", turned(c.array("x"))),
                                    bare.input("next", turned(c.array("next_x")))},
                                   1);
  bare.graph->output("y", graph::silu(model::causal_convolution(rows, kernel, {})));
  const Tensor made = turned(bare.run(*c.topic().engine())[0]);
  Tensor y(DType::f32, {batch, channels, seq}), next(DType::f32, {batch, channels, 1});
  for (int64_t i = 0; i < batch * channels; ++i) {
    const auto row = made.as<float>().subspan(static_cast<size_t>(i * (seq + 1)));
    std::copy_n(row.begin(), seq, y.mutable_as<float>().begin() + i * seq);
    next.mutable_as<float>()[static_cast<size_t>(i)] = row[static_cast<size_t>(seq)];
  }
  c.close(tolerance, y, c.array("y"), "y");
  c.close(tolerance, next, c.array("next_y"), "next_y");
}

// As the description of the topic has it: "gatednorm: RMS norm (eps 1e-6)".
float gated_norm_eps(const Topic& topic) {
  const auto text = topic.cases().value("description", "");
  static const std::regex form("gatednorm: RMS norm \\(eps ([0-9.e-]+)\\)");
  std::smatch found;
  if (!std::regex_search(text, found, form))
    fail(Code::invalid_argument, "the description of the topic has no eps of the gated norm");
  return std::stof(found[1]);
}

void run_gated_norm(Case& c, Tolerance tolerance) {
  BareGraph bare("norm");
  const Value normed =
      graph::rms_norm(bare.input("x", c.array("x")), bare.input("weight", c.array("weight")),
                      gated_norm_eps(c.topic()));
  bare.graph->output("y",
                     graph::multiply(normed, graph::silu(bare.input("gate", c.array("gate")))));
  c.close(tolerance, bare.run(*c.topic().engine())[0], c.array("y"), "y");
}

} // namespace

void run_gated_deltanet(Topic& topic) {
  for (const Json& entry : topic.list("cases")) {
    topic.run(entry, [&](Case& c) {
      const Tolerance tolerance = topic.tolerance(entry);
      const bool unit = entry.value("qk_l2norm", true);
      for (const int64_t chunk : {1, 7, 32, 64}) run_rule(c, unit, chunk, tolerance);
      run_cached(c, unit, tolerance);
      for (const int64_t chunk : {1, 32}) run_gradients(c, unit, chunk, tolerance);
    });
  }
  const Tolerance tolerance = topic.tolerance(Json::object());
  for (int64_t i = 0; topic.has("conv." + std::to_string(i) + ".x"); ++i) {
    topic.run("conv." + std::to_string(i), [&](Case& c) { run_convolution(c, tolerance); });
  }
  if (topic.has("gatednorm.x"))
    topic.run(std::string("gatednorm"), [&](Case& c) { run_gated_norm(c, tolerance); });
}

} // namespace dllm::parity
