#include "decode/array/array_program.h"
#include "decode/loop/step_loop.h"
#include "decode/pass/sampling.h"
#include "graph/ops.h"

namespace dllm::decode {
namespace {

using graph::Graph;
using graph::Value;

// Returns the rows of a pass, whose inputs the graph may have already.
ArrayRows pass_rows(model::Builder& builder, const ArrayShape& shape) {
  const PassShape& pass = shape.pass;
  const Shape window{pass.all_rows(), pass.window};
  const auto input = [&](const char* name, DType dtype) {
    return row_input(builder, name, dtype, window);
  };
  ArrayRows made{builder,
                 pass,
                 input("ids", DType::i32),
                 input("given", DType::u8),
                 input("positions", DType::i32),
                 input("limit", DType::i32)};
  if (!shape.blocks) return made;
  made.block_begin = row_input(builder, "block_begin", DType::i32, Shape{pass.rows});
  made.block_end = row_input(builder, "block_end", DType::i32, Shape{pass.rows});
  return made;
}

// Runs a rule, under guidance on two copies of every row at once.
class GuidedRule {
public:
  GuidedRule(const ArrayRule& rule, const ArrayRows& rows) : rule_(rule), rows_(rows) {
    if (!rows.shape.guided) return;
    Graph& graph = rows.builder.graph();
    const Value weight = row_input(rows.builder, "guidance", DType::f32, Shape{rows.shape.rows});
    factor_ =
        graph::reshape(graph::add(weight, graph::scalar(graph, 1.0f)), {rows.shape.rows, 1, 1});
  }

  Denoised denoise(const NoisyArray& array) const {
    if (!rows_.shape.guided) return rule_.denoise(rows_, array);
    const ArrayLevel level{twice(array.level.time), twice(array.level.signal),
                           twice(array.level.sigma)};
    const Denoised made = rule_.denoise(
        rows_, {twice(array.numbers), level, twice(array.previous), twice(array.has_previous)});
    return {guided(made.clean), made.states.defined() ? guided(made.states) : Value()};
  }

private:
  static Value twice(Value x) { return graph::concat({x, x}, 0); }
  Value guided(Value x) const {
    const int64_t half = rows_.shape.rows;
    const Value with = graph::slice_axis(x, 0, 0, half),
                without = graph::slice_axis(x, 0, half, 2 * half);
    return graph::add(without, graph::multiply(factor_, graph::subtract(with, without)));
  }

  const ArrayRule& rule_;
  const ArrayRows& rows_;
  Value factor_;
};

// Returns the name of the body's input that has a value of ArrayRule::prepare.
std::string kept_name(const std::string& name) {
  return "kept:" + name;
}

// One step of the loop.
class ArrayStep {
public:
  ArrayStep(Graph& body, const model::Model& model, const ArrayPolicy& policy,
            const ArrayShape& shape, const ArrayKept& kept)
      : graph_(body), policy_(policy), shape_(shape), kept_(kept),
        axes_(model::request_axes(model.engine().mesh())) {
    const int64_t rows = shape.array_rows();
    step_ = state("step", DType::i32, {}, {});
    array_ = state("array", DType::f32, array_shape(), axes_);
    if (shape.previous) previous_ = state("previous", DType::f32, array_shape(), axes_);
    arrays_ = state("arrays", DType::f32, {shape.steps, rows, shape.width}, axes_);
    if (shape.previous)
      cleans_ = state("cleans", DType::f32, {shape.steps, rows, shape.width}, axes_);
    if (shape.texts > 0) {
      read_ =
          state("read", DType::f32, {shape.texts, shape.read_rows(), shape.read_width()}, axes_);
    }
    builder_ = std::make_unique<model::Builder>(body, model, shape.pass.parts.list);
  }

  void build() {
    const SolverResult made = solve();
    alive_ = graph::reshape(of_step("alive", DType::u8, {rows()}), {rows(), 1, 1});
    Value changes = alive_;
    if (shape_.blocks) changes = graph::logical_and(alive_, in_block());
    const Value array = graph::select(changes, made.array, array_);
    output(graph::add(step_, i32(1)));
    output(array);
    if (shape_.previous) output(graph::select(alive_, made.made.clean, previous_));
    output(put(arrays_, array));
    if (shape_.previous) output(put(cleans_, made.made.clean));
    if (shape_.texts > 0) output(put_read(made.made));
    input_of(graph_, "most_steps", DType::i32, Shape{}); // for the condition
  }
  const std::vector<std::string>& state_names() const { return names_; }

private:
  int64_t rows() const { return shape_.pass.rows; }
  Shape array_shape() const { return {rows(), shape_.length, shape_.width}; }
  Value i32(int64_t value) { return graph::scalar_i32(graph_, static_cast<int32_t>(value)); }
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
    const Value table = row_input(*builder_, name, dtype, Shape(all));
    return graph::reshape(graph::dynamic_slice(table, begin, one), Shape(part));
  }
  // Writes x as entry `at` of a record (entries, rows, width).
  Value put_at(Value record, Value at, Value x) {
    return graph::dynamic_update_slice(record, graph::reshape(x, {1, record.dim(1), record.dim(2)}),
                                       {at, i32(0), i32(0)});
  }
  Value put(Value record, Value x) { return put_at(record, step_, x); }
  // Records what the text is read from: of every step, or of the last step of each row.
  Value put_read(const Denoised& made) {
    const Shape one{rows(), shape_.read_rows() / rows(), shape_.read_width()};
    const Value x = shape_.states > 0 ? made.states : made.clean;
    if (shape_.texts == shape_.steps) return put(read_, x);
    const Value before = graph::reshape(read_, one);
    return put_at(read_, i32(0), graph::select(alive_, graph::reshape(x, one), before));
  }

  ArrayRows fixed_rows() {
    ArrayRows made = pass_rows(*builder_, shape_);
    for (const auto& [name, value] : kept_)
      made.kept[name] = graph_.input(kept_name(name), value.type());
    return made;
  }
  // Returns u8(rows, length, 1): 1 for the rows of the block.
  Value in_block() {
    const auto bound = [&](const char* name) {
      return graph::reshape(row_input(*builder_, name, DType::i32, Shape{rows()}), {rows(), 1, 1});
    };
    const Value place = graph::iota(graph_, {1, shape_.length, 1}, DType::i32, 1);
    return graph::logical_and(graph::greater_equal(place, bound("block_begin")),
                              graph::less(place, bound("block_end")));
  }

  SolverResult solve() {
    const Value levels = of_step("levels", DType::f32, {10, rows()});
    const auto column = [&](int64_t at) {
      return graph::reshape(graph::slice_axis(levels, 0, at, at + 1), {rows(), 1, 1});
    };
    const auto level = [&](int64_t at) {
      return ArrayLevel{column(at), column(at + 1), column(at + 2)};
    };
    const ArrayRows fixed = fixed_rows();
    const GuidedRule rule(policy_.rule(), fixed);
    SolverStep step;
    const Value previous = shape_.previous ? previous_ : graph::full(graph_, array_shape(), 0.0f);
    step.array = {array_, level(0), previous, column(9)};
    step.next = level(3);
    step.before = level(6);
    if (policy_.solver().uses_noise())
      step.noise = of_step("noise", DType::f32, array_shape().dims());
    step.denoise = [&](const NoisyArray& array) { return rule.denoise(array); };
    return policy_.solver().step(step);
  }

  Graph& graph_;
  const ArrayPolicy& policy_;
  const ArrayShape& shape_;
  const ArrayKept& kept_;
  graph::AxisSet axes_;
  std::vector<std::string> names_;
  Value step_, array_, previous_, arrays_, cleans_, read_, alive_;
  std::unique_ptr<model::Builder> builder_; // after the state, whose inputs come first
};

// Returns the first rows of x (all, window), `count` times.
Value repeated(Value x, int64_t rows, int64_t count) {
  const int64_t window = x.dim(1);
  const Value one = graph::reshape(graph::slice_axis(x, 0, 0, rows), {1, rows, window});
  return graph::reshape(graph::broadcast(one, {count, rows, window}), {count * rows, window});
}

// Returns i32(texts, places, columns): the lines of all texts, as one batch. `read` is the record
// of what they are read from.
Value text_lines(model::Builder& builder, const ArrayRule& rule, const ArrayShape& shape,
                 Value read) {
  const ArrayRows once = pass_rows(builder, shape);
  PassShape pass = shape.pass;
  pass.guided = false;
  pass.rows *= shape.texts;
  pass.capacity = pass.rows * pass.window;
  const auto all = [&](Value x) { return repeated(x, shape.pass.rows, shape.texts); };
  const ArrayRows rows{builder,        pass, all(once.ids), all(once.given), all(once.positions),
                       all(once.limit)};
  const int64_t each = shape.read_rows() / shape.pass.rows;
  const ArrayText text =
      rule.read(rows, graph::reshape(read, {pass.rows, each, shape.read_width()}));
  const Shape flat{pass.capacity};
  graph::TokenStatisticsInputs head = head_over(builder, text.head, text.hidden, pass);
  head.count = graph::scalar_i32(builder.graph(), static_cast<int32_t>(pass.capacity));
  add_sampling(head, pass, [&](const char* name, DType dtype) {
    return row_input(builder, name, dtype, flat);
  });
  head.uniform = row_input(builder, "uniform", DType::f32, flat);
  const graph::TokenStatistics s = graph::token_statistics(head, pass.needs.listed());
  const PredictionColumns columns(pass.needs);
  return graph::reshape(prediction_lines(prediction_values(s), columns),
                        {shape.texts, shape.places(), columns.count});
}

} // namespace

void build_array_loop(Graph& graph, const model::Model& model, const ArrayPolicy& policy,
                      const ArrayShape& shape) {
  model::Builder builder(graph, model, shape.pass.parts.list);
  StepLoop loop;
  loop.body = std::make_shared<Graph>("denoise_array_step");
  const Shape array{shape.pass.rows, shape.length, shape.width};
  const ArrayKept kept = policy.rule().prepare(pass_rows(builder, shape),
                                               row_input(builder, "array", DType::f32, array));
  for (const auto& [name, value] : kept) loop.given[kept_name(name)] = value;
  ArrayStep step(*loop.body, model, policy, shape, kept);
  step.build();
  loop.state = step.state_names();
  loop.begin = [](const std::string& name) {
    return name == "array" || name == "previous" ? std::nullopt : std::optional<int32_t>(0);
  };
  loop.goes_on = [](const auto& given) { return graph::less(given("step"), given("most_steps")); };
  const LoopEnd end = add_loop(graph, loop);
  std::vector<Value> answer = {end.value("arrays")};
  if (shape.previous) answer.push_back(end.value("cleans"));
  if (shape.texts > 0)
    answer.push_back(text_lines(builder, policy.rule(), shape, end.value("read")));
  for (Value& part : answer)
    part = graph::reshape(graph::bitcast(part, DType::i32), {part.shape().count()});
  graph.output("answer", gather_shares(graph::concat(answer, 0), model.engine().mesh()));
}

} // namespace dllm::decode
