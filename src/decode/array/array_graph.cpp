#include "decode/array/array_program.h"
#include "decode/loop/step_loop.h"
#include "decode/pass/sampling.h"
#include "graph/ops.h"

namespace dllm::decode {
namespace {

using graph::Graph;
using graph::Value;

// One step of the loop.
class ArrayStep {
public:
  ArrayStep(Graph& body, const model::Model& model, const ArrayRule& rule, const ArrayShape& shape)
      : graph_(body), rule_(rule), shape_(shape),
        axes_(model::request_axes(model.engine().mesh())) {
    step_ = state("step", DType::i32, {}, {});
    array_ = state("array", DType::f32, array_shape(), axes_);
    lines_ = state("lines", DType::i32, {shape.steps, shape.places(), columns()}, axes_);
    arrays_ = state("arrays", DType::f32, {shape.steps, shape.places(), shape.width}, axes_);
    builder_ = std::make_unique<model::Builder>(body, model, shape.pass.parts.list);
  }

  void build() {
    const SolverResult made = solve();
    const Value alive = graph::reshape(of_step("alive", DType::u8, {rows()}), {rows(), 1, 1});
    const Value array = graph::select(alive, made.array, array_);
    output(graph::add(step_, i32(1)));
    output(array);
    output(put(lines_, predict(made.hidden)));
    output(put(arrays_, graph::reshape(array, {shape_.places(), shape_.width})));
    input_of(graph_, "most_steps", DType::i32, Shape{}); // for the condition
  }
  const std::vector<std::string>& state_names() const { return names_; }

private:
  int64_t rows() const { return shape_.pass.rows; }
  int64_t columns() const { return PredictionColumns(shape_.pass.needs).count; }
  Shape array_shape() const { return {rows(), shape_.pass.window, shape_.width}; }
  Value i32(int64_t value) { return graph::scalar_i32(graph_, static_cast<int32_t>(value)); }
  Value input(const char* name, DType dtype, Shape shape) {
    return row_input(*builder_, name, dtype, std::move(shape));
  }
  Value state(const char* name, DType dtype, Shape shape, graph::AxisSet axes) {
    names_.emplace_back(name);
    return graph_.input(name, {std::move(shape), dtype, axes});
  }
  // Adds the next value of the state, in the order of the constructor.
  void output(Value value) {
    const size_t at = graph_.outputs().size();
    graph_.output(names_[at], graph::vary(value, graph_.type(graph_.inputs()[at].value).axes));
  }

  // Returns this step's part of a table (steps, ...).
  Value of_step(const char* name, DType dtype, const std::vector<int64_t>& part) {
    std::vector<int64_t> all = {shape_.steps}, one = {1};
    all.insert(all.end(), part.begin(), part.end());
    one.insert(one.end(), part.begin(), part.end());
    std::vector<Value> begin(all.size(), i32(0));
    begin[0] = step_;
    return graph::reshape(graph::dynamic_slice(input(name, dtype, Shape(all)), begin, one),
                          Shape(part));
  }
  // Writes x (places, n) as this step's part of a record (steps, places, n).
  Value put(Value record, Value x) {
    return graph::dynamic_update_slice(record, graph::reshape(x, {1, x.dim(0), x.dim(1)}),
                                       {step_, i32(0), i32(0)});
  }

  SolverResult solve() {
    const Value levels = of_step("levels", DType::f32, {6, rows()});
    const auto column = [&](int64_t at) {
      return graph::reshape(graph::slice_axis(levels, 0, at, at + 1), {rows(), 1, 1});
    };
    const Shape window{rows(), shape_.pass.window};
    const ArrayRows fixed{*builder_, shape_.pass, input("ids", DType::i32, window),
                          input("given", DType::u8, window)};
    SolverStep step{
        array_, {column(0), column(1), column(2)}, {column(3), column(4), column(5)}, {}, {}};
    if (rule_.solver().uses_noise())
      step.noise = of_step("noise", DType::f32, array_shape().dims());
    step.denoise = [&](Value array, Value time) { return rule_.denoise(fixed, array, time); };
    return rule_.solver().step(step);
  }

  // Returns i32(places, columns): the line of every position.
  Value predict(Value hidden) {
    const Shape flat{shape_.places()};
    graph::TokenStatisticsInputs head = head_over(*builder_, hidden, shape_.pass);
    head.count = i32(shape_.places());
    add_sampling(head, shape_.pass,
                 [&](const char* name, DType dtype) { return input(name, dtype, flat); });
    head.uniform = of_step("uniform", DType::f32, {shape_.places()});
    const graph::TokenStatistics s = graph::token_statistics(head, shape_.pass.needs.listed());
    return prediction_lines(prediction_values(s), PredictionColumns(shape_.pass.needs));
  }

  Graph& graph_;
  const ArrayRule& rule_;
  const ArrayShape& shape_;
  graph::AxisSet axes_;
  std::vector<std::string> names_;
  Value step_, array_, lines_, arrays_;
  std::unique_ptr<model::Builder> builder_; // after the state, whose inputs come first
};

} // namespace

void build_array_loop(Graph& graph, const model::Model& model, const ArrayRule& rule,
                      const ArrayShape& shape) {
  StepLoop loop;
  loop.body = std::make_shared<Graph>("denoise_array_step");
  ArrayStep step(*loop.body, model, rule, shape);
  step.build();
  loop.state = step.state_names();
  loop.begin = [](const std::string& name) {
    return name == "array" ? std::nullopt : std::optional<int32_t>(0);
  };
  loop.goes_on = [](const auto& given) { return graph::less(given("step"), given("most_steps")); };
  const LoopEnd end = add_loop(graph, loop);
  const graph::Mesh& mesh = model.engine().mesh();
  graph.output("lines", gather_shares(end.value("lines"), mesh));
  graph.output("arrays", gather_shares(end.value("arrays"), mesh));
}

} // namespace dllm::decode
