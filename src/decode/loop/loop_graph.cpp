#include "decode/loop/loop_program.h"

#include "decode/loop/step_loop.h"
#include "decode/pass/pass_program.h"
#include "decode/pass/sampling.h"
#include "graph/ops.h"

#include <algorithm>
#include <string>
#include <vector>

namespace dllm::decode {
namespace {

using graph::Graph;
using graph::Value;

// The values that a step passes to the next one, in the order of the body's inputs and outputs.
class LoopState {
public:
  LoopState(Graph& body, const model::Model& model, const LoopShape& shape) {
    const int64_t rows = shape.pass.rows, window = shape.pass.window;
    const graph::AxisSet axes = model::request_axes(model.engine().mesh());
    const auto equal = [&](const char* name) { // a value that is equal on all ranks
      names_.emplace_back(name);
      return body.input(name, DType::i32, Shape{});
    };
    const auto own = [&](const char* name, DType dtype, Shape type) {
      names_.emplace_back(name);
      return body.input(name, {std::move(type), dtype, axes});
    };
    step = equal("step");
    goes_on = equal("goes_on");
    alive = own("alive", DType::u8, Shape{rows});
    steps = own("steps", DType::i32, Shape{rows});
    carry = own("carry", DType::i32, Shape{rows});
    ids = own("ids", DType::i32, Shape{rows, window});
    open = own("open", DType::u8, Shape{rows, shape.block});
    if (shape.pass.soft) {
      soft_on = own("soft_on", DType::u8, Shape{rows, window});
      soft_ids = own("soft_ids", DType::i32, Shape{rows, window, shape.pass.needs.soft_width});
      soft_weights =
          own("soft_weights", DType::f32, Shape{rows, window, shape.pass.needs.soft_width});
    }
    if (shape.pass.keys > 0) {
      for (const StateInput& input : state_inputs(model.config(), model.params(), shape.pass)) {
        names_.push_back(input.name);
        stacks.push_back(body.input(input.name, input.type));
      }
    }
    record = own("record", DType::i32,
                 Shape{shape.steps, shape.places(), record_columns(shape.pass.needs)});
  }

  const std::vector<std::string>& names() const { return names_; }
  void output(Graph& body) const {
    std::vector<Value> all = {step, goes_on, alive,   steps,    carry,
                              ids,  open,    soft_on, soft_ids, soft_weights};
    all.insert(all.end(), stacks.begin(), stacks.end());
    all.push_back(record);
    for (const Value& value : all) {
      if (!value.defined()) continue;
      const size_t at = body.outputs().size(); // the input of the same index
      const graph::ValueType& type = body.type(body.inputs()[at].value);
      body.output(names_[at], graph::vary(value, type.axes));
    }
  }

  Value step, goes_on, alive, steps, carry, ids, open, soft_on, soft_ids, soft_weights, record;
  std::vector<Value> stacks; // stacks of the state

private:
  std::vector<std::string> names_;
};

// One step of the loop.
class StepBody {
public:
  StepBody(Graph& body, const model::Model& model, const LoopRule& rule, const LoopShape& shape)
      : graph_(body), rule_(rule), shape_(shape), state_(body, model, shape),
        builder_(body, model, shape.pass.parts.list) {}

  void build() {
    const Value place = input("place", DType::i32, both());
    const LoopContext moment = this->moment(place);
    const Value wanted = graph::logical_and(rule_.wanted(moment), per_row(state_.alive));
    Value timesteps;
    if (builder_.config().time_conditioning) timesteps = of_step("timesteps", DType::f32);
    const WindowStates made = window_states(builder_, shape_.pass, timesteps);
    const PredictionValues predicted = predict(made.hidden, wanted);
    const LoopChoice choice = rule_.choose(moment, predicted);
    const Value commit = graph::logical_and(choice.decided, per_row(state_.alive));
    LoopState next = state_;
    const Value token = graph::select(commit, predicted.token, moment.ids);
    next.ids = put(state_.ids, place, token);
    next.open = without(state_.open, commit);
    if (rule_.reopening() >= 0) {
      const Value masked = graph::equal(predicted.token, i32(rule_.reopening()));
      next.open = graph::logical_or(next.open, graph::logical_and(commit, masked));
    }
    if (shape_.pass.soft) {
      next.soft_on = put(state_.soft_on, place, without(moment.eligible, next.open));
      next.soft_ids = put(state_.soft_ids, place, choice.soft_ids);
      next.soft_weights = put(state_.soft_weights, place, choice.soft_weights);
    }
    next.stacks = made.state.stacks;
    if (choice.carry.defined()) next.carry = choice.carry;
    // No position of a finished row is committed any more.
    Value ended = choice.ended.defined() ? choice.ended : graph::logical_not(any_of(next.open));
    for (const Value& also : {choice.over, choice.stuck}) {
      if (also.defined()) ended = graph::logical_or(ended, also);
    }
    next.alive = without(state_.alive, ended);
    next.steps = graph::add(state_.steps, graph::convert(state_.alive, DType::i32));
    next.record = write_record(predicted, graph::select(next.open, i32(-1), token));
    next.step = graph::add(state_.step, i32(1));
    next.goes_on = any_share(graph::max(graph::convert(next.alive, DType::i32), {0}));
    next.output(graph_);
    input_of(graph_, "most_steps", DType::i32, Shape{}); // for the condition
  }
  const std::vector<std::string>& state_names() const { return state_.names(); }

private:
  const PredictionNeeds& needs() const { return shape_.pass.needs; }
  Shape both() const { return {shape_.pass.rows, shape_.block}; }
  Shape flat() const { return {shape_.places()}; }
  Value i32(int64_t value) { return graph::scalar_i32(graph_, static_cast<int32_t>(value)); }
  Value input(const char* name, DType dtype, Shape shape) {
    return row_input(builder_, name, dtype, std::move(shape));
  }
  // Returns the maximum over the ranks. All ranks must leave the loop at the same step, because its
  // body may exchange arrays.
  Value any_share(Value x) const {
    return x.type().axes.empty() ? x : graph::all_reduce_max(x, x.type().axes);
  }

  // Returns (rows): this step's row of a table (steps, rows).
  Value of_step(const char* name, DType dtype) {
    const int64_t rows = shape_.pass.rows;
    const Value table = input(name, dtype, Shape{shape_.steps, rows});
    return graph::reshape(graph::dynamic_slice(table, {state_.step, i32(0)}, {1, rows}), {rows});
  }
  // Returns (rows, block): this step's numbers of a table (steps, rows, block).
  Value numbers_of_step(const char* name) {
    const int64_t rows = shape_.pass.rows;
    const Value table = input(name, DType::f32, Shape{shape_.steps, rows, shape_.block});
    return graph::reshape(
        graph::dynamic_slice(table, {state_.step, i32(0), i32(0)}, {1, rows, shape_.block}),
        both());
  }

  LoopContext moment(Value place) {
    const Value ids =
        graph::take(graph::reshape(state_.ids, {shape_.pass.rows * shape_.pass.window}),
                    place); // places beyond the end read the last id, which is not used
    LoopContext moment{graph_,
                       input("eligible", DType::u8, both()),
                       state_.open,
                       ids,
                       of_step("count", DType::i32),
                       of_step("level", DType::f32),
                       {},
                       state_.carry};
    if (rule_.uses_chance()) moment.chance = numbers_of_step("chance");
    return moment;
  }

  // Returns x (rows, window, ...) with the positions of the block overwritten.
  Value put(Value x, Value place, Value block) {
    const auto rows_of = [&](Value y, int64_t count) {
      std::vector<int64_t> dims = y.shape().dims();
      dims.erase(dims.begin());
      dims[0] = count;
      return graph::reshape(y, Shape(dims));
    };
    const Value all = rows_of(x, shape_.pass.rows * shape_.pass.window);
    const Value made =
        graph::scatter_set(all, graph::reshape(place, flat()), rows_of(block, shape_.places()));
    return graph::reshape(made, x.shape());
  }

  // Computes the statistics of the wanted positions only: moves them to the front, then back.
  PredictionValues predict(Value hidden, Value wanted) {
    const Value flags = graph::reshape(wanted, flat());
    const Value upto = graph::cumsum(graph::convert(flags, DType::i32), 0);
    const Value nowhere = i32(shape_.places());
    const Value to = graph::select(flags, graph::subtract(upto, i32(1)), nowhere);
    const Value numbers = graph::iota(graph_, flat(), DType::i32, 0);
    const Value from =
        graph::scatter_set(graph::broadcast(i32(0), flat()), to, numbers); // (capacity)
    const auto packed = [&](Value x) { return graph::take(graph::reshape(x, flat()), from); };
    const Value query = packed(input("query", DType::i32, both()));
    graph::TokenStatisticsInputs head =
        head_over(builder_, graph::take(hidden, query), shape_.pass);
    head.count =
        graph::reshape(graph::slice_axis(upto, 0, shape_.places() - 1, shape_.places()), Shape{});
    add_sampling(head, shape_.pass,
                 [&](const char* name, DType dtype) { return packed(input(name, dtype, both())); });
    head.uniform = packed(numbers_of_step("uniform"));
    PredictionValues predicted = prediction_values(graph::token_statistics(head, needs().top));
    const auto spread = [&](Value x) {
      const Value back = graph::take(x, to);
      const bool wide = back.rank() == 2; // (places, top)
      const Value on = wide ? graph::reshape(flags, {shape_.places(), 1}) : flags;
      std::vector<int64_t> dims = {shape_.pass.rows, shape_.block};
      if (wide) dims.push_back(back.dim(1));
      const Value zero = x.dtype() == DType::f32 ? graph::scalar(graph_, 0.0f) : i32(0);
      // The barrier keeps the compiler from computing the values twice. The choice and the record
      // must have the same bits.
      return graph::barrier(graph::reshape(graph::select(on, back, zero), Shape(dims)));
    };
    for (Value* value : predicted.all()) *value = spread(*value);
    return predicted;
  }

  Value write_record(const PredictionValues& predicted, Value after) {
    const Value lines = prediction_lines(predicted, PredictionColumns(needs()), {after});
    const Shape one{1, shape_.places(), record_columns(needs())};
    return graph::dynamic_update_slice(state_.record, graph::reshape(lines, one),
                                       {state_.step, i32(0), i32(0)});
  }

  Graph& graph_;
  const LoopRule& rule_;
  const LoopShape& shape_;
  LoopState state_; // declared first: its inputs come first
  model::Builder builder_;
};

} // namespace

void build_loop(Graph& graph, const model::Model& model, const LoopRule& rule,
                const LoopShape& shape) {
  StepLoop loop;
  loop.body = std::make_shared<Graph>("denoise_step");
  StepBody step(*loop.body, model, rule, shape);
  step.build();
  loop.state = step.state_names();
  loop.begin = [](const std::string& name) -> std::optional<int32_t> {
    if (name == "goes_on") return 1;
    const bool zero = name == "step" || name == "steps" || name == "record";
    return zero ? std::optional<int32_t>(0) : std::nullopt;
  };
  // A row is alive on any rank, and steps are left.
  loop.goes_on = [](const auto& given) {
    const Value alive =
        graph::greater(given("goes_on"), graph::scalar_i32(*given("step").graph, 0));
    return graph::logical_and(alive, graph::less(given("step"), given("most_steps")));
  };
  const LoopEnd last = add_loop(graph, loop);
  if (shape.pass.keys > 0) {
    for (const StateInput& input : state_inputs(model.config(), model.params(), shape.pass))
      graph.output(input.name, last.value(input.name), input.name);
  }
  const Value record = last.value("record");
  const Value answer =
      graph::concat({graph::reshape(record, {record.shape().count()}), last.value("steps"),
                     graph::convert(last.value("alive"), DType::i32)},
                    0);
  graph.output("answer", gather_shares(answer, model.engine().mesh()));
}

} // namespace dllm::decode
