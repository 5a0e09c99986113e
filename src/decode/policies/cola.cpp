// Cola (arXiv 2605.06548): blocks of latents one after the other. Steps of a solver take a block of
// noise to latents, by the velocity that the prior predicts from the block and the latents of the
// blocks before. Then the decoder reads the tokens of the block. Latents of given tokens come from
// the encoder. The prior computes K and V of the blocks before once for all steps of a block.

#include "base/error.h"
#include "decode/array/array_policy.h"
#include "decode/policies/policies.h"
#include "graph/ops.h"
#include "model/network/token_batch.h"
#include "noise/latent/cola_networks.h"

#include <algorithm>

namespace dllm::decode {
namespace {

using graph::Value;

constexpr const char* kKnown = "known"; // the latents of given tokens
constexpr int32_t kNowhere = 1 << 30;   // writes nothing

// Returns the option where it is set, else the length that the model was trained with.
int64_t block_of(const PolicySetup& setup) {
  const bool own = !setup.options.is_set("block_length") && setup.config.block_length > 0;
  return own ? setup.config.block_length : setup.i64("block_length");
}

class ColaRule final : public ArrayRule {
public:
  explicit ColaRule(const PolicySetup& setup)
      : block_(block_of(setup)), attention_(setup.config.attention),
        is_cached_(setup.options.boolean("prefix_cache")) {
    for (const std::string& part : noise::cola_parts()) {
      if (setup.parts != nullptr && setup.parts->has(part)) continue;
      fail_with_hint("train the model with objective cola", Code::failed_precondition,
                     "policy cola needs part {} of the model", part);
    }
    const auto& inputs = setup.parts->find(noise::cola_part::kPrior)->config.tower.inputs;
    if (inputs.empty())
      fail(Code::failed_precondition, "part prior of the model has no input of latents");
    width_ = inputs.front().size;
    if (block_ > 0) return;
    fail_with_hint("set block_length", Code::failed_precondition,
                   "policy cola needs the block length of the model");
  }

  int64_t width(const model::ModelConfig&) const override { return width_; }
  int64_t block_length() const override { return block_; }
  std::vector<std::string> other_parts() const override { return noise::cola_parts(); }
  HostLevel level(const noise::Schedule&, double t) const override {
    return {static_cast<float>(t), static_cast<float>(1 - t), static_cast<float>(t)};
  }
  ArrayKept prepare(const ArrayRows& rows, Value array) const override;
  Denoised denoise(const ArrayRows& rows, const NoisyArray& array) const override;
  ArrayText read(const ArrayRows& rows, Value read) const override;

private:
  Value block(graph::Graph& graph) const {
    return graph::scalar_i32(graph, static_cast<int32_t>(block_));
  }
  Value velocity_of_window(const ArrayRows& rows, const NoisyArray& array, Value latents) const;
  Value velocity_of_block(const ArrayRows& rows, const NoisyArray& array) const;

  int64_t block_, width_ = 0;
  model::AttentionKind attention_;
  bool is_cached_;
};

Value i32_of(graph::Graph& graph, int64_t number) {
  return graph::scalar_i32(graph, static_cast<int32_t>(number));
}

// Returns the rows of requests, twice under guidance.
Value of_all_rows(const ArrayRows& rows, Value of_requests) {
  return rows.shape.guided ? graph::concat({of_requests, of_requests}, 0) : of_requests;
}
// Returns the rows of requests, of values for all rows.
Value of_requests(const ArrayRows& rows, Value of_all) {
  return rows.shape.guided ? graph::slice_axis(of_all, 0, 0, rows.shape.rows) : of_all;
}

// Returns i32(rows): the number of positions of a row. Places behind them have limit 0.
Value lengths_of(Value limit) {
  return graph::max(limit, {1});
}

// Returns i32(rows): the first key that a row sees. Under guidance the second half of the rows has
// no prefix.
Value first_keys(const ArrayRows& rows) {
  const Value none = graph::subtract(rows.block_begin, rows.block_begin);
  return rows.shape.guided ? graph::concat({none, rows.block_begin}, 0) : none;
}

// Returns x (rows, ...) as (rows, 1, 1).
Value per_request(Value x) {
  return graph::reshape(x, {x.dim(0), 1, 1});
}

// Returns u8(requests, window, 1): 1 for given tokens of the array `with` them.
Value given_places(const ArrayRows& rows) {
  const Value given = of_requests(rows, rows.given);
  return graph::reshape(given, {given.dim(0), given.dim(1), 1});
}

// The stacks of the prior's state for the windows of all rows, and where a window's keys are.
model::StateValues prior_state(const ArrayRows& rows) {
  graph::Graph& graph = rows.builder.graph();
  const int64_t count = rows.rows(), window = rows.window();
  model::StateValues state;
  const Value first =
      graph::multiply(graph::iota(graph, {count, 1}, DType::i32, 0), i32_of(graph, window));
  state.read_at = graph::vary(graph::add(first, graph::iota(graph, {1, window}, DType::i32, 1)),
                              rows.ids.type().axes);
  return state;
}

std::string stack_name(size_t number) {
  return "prior." + std::to_string(number);
}

ArrayKept ColaRule::prepare(const ArrayRows& rows, Value array) const {
  graph::Graph& graph = rows.builder.graph();
  const Value given = of_requests(rows, rows.given), limit = of_requests(rows, rows.limit);
  noise::ColaTokens tokens;
  tokens.tokens.ids = of_requests(rows, rows.ids);
  tokens.tokens.positions = of_requests(rows, rows.positions);
  tokens.tokens.mask = model::make_mask(attention_, block(graph));
  tokens.tokens.mask.and_key_keep(given);
  tokens.visible.and_key_keep(given);
  tokens.block = block(graph);
  const Value known = noise::cola_encode_tokens(rows.builder, tokens, true).mean;
  ArrayKept kept = {{kKnown, known}};
  if (!is_cached_) return kept;

  const int64_t count = rows.rows(), window = rows.window();
  const Value latents =
      graph::select(graph::reshape(given, {given.dim(0), window, 1}), known, array);
  model::ForwardInputs prior;
  prior.positions = rows.positions;
  prior.levels = graph::vary(graph::full(graph, {count, 1}, 0.0f), rows.ids.type().axes);
  prior.mask = graph::Mask::block_causal(block(graph));
  const Value length = of_all_rows(rows, lengths_of(limit));
  prior.mask.and_key_range(graph::subtract(length, length), length);
  prior.state = prior_state(rows);
  prior.state.write_at = graph::reshape(prior.state.read_at, {count * window});
  const model::ModelConfig& config = rows.builder.part(noise::cola_part::kPrior).config();
  for (const model::StateStack& stack : model::state_stacks(config)) {
    const graph::ValueType type = stack.type({count, window}, rows.builder.params());
    prior.state.stacks.push_back(
        graph::vary(graph::convert(graph::full(graph, type.shape, 0.0f), type.dtype), type.axes));
  }
  const std::vector<Value> stacks =
      noise::cola_prior_pass(rows.builder, prior, of_all_rows(rows, latents)).state.stacks;
  for (size_t i = 0; i < stacks.size(); ++i) kept.push_back({stack_name(i), stacks[i]});
  return kept;
}

// Computes the prior over all blocks up to the one that is made.
Value ColaRule::velocity_of_window(const ArrayRows& rows, const NoisyArray& array,
                                   Value latents) const {
  graph::Graph& graph = rows.builder.graph();
  const int64_t count = rows.rows(), window = rows.window();
  const Value begin = of_all_rows(rows, rows.block_begin);
  const Value place = graph::iota(graph, {1, window}, DType::i32, 1);
  const Value before = graph::less(place, graph::reshape(begin, {count, 1}));
  const Value time =
      graph::broadcast(graph::reshape(array.level.time, {count, 1}), {count, window});
  model::ForwardInputs prior;
  prior.positions = rows.positions;
  prior.levels = graph::select(before, graph::multiply(time, graph::scalar(graph, 0.0f)), time);
  prior.mask = graph::Mask::block_causal(block(graph));
  prior.mask.and_key_range(first_keys(rows), of_all_rows(rows, rows.block_end));
  return noise::cola_velocity(rows.builder, prior, latents);
}

// Computes the prior over the block alone, from K and V of the blocks before it.
Value ColaRule::velocity_of_block(const ArrayRows& rows, const NoisyArray& array) const {
  graph::Graph& graph = rows.builder.graph();
  const int64_t count = rows.rows(), window = rows.window(), width = array.numbers.dim(2),
                size = std::min(block_, window);
  const Value begin = graph::reshape(of_all_rows(rows, rows.block_begin), {count, 1});
  const Value inside = graph::iota(graph, {1, size}, DType::i32, 1);
  const Value last = i32_of(graph, window - 1);
  const Value place = graph::add(begin, inside), safe = graph::minimum(place, last);
  const Value first =
      graph::multiply(graph::iota(graph, {count, 1}, DType::i32, 0), i32_of(graph, window));
  const Value row = graph::add(safe, first); // of (count * window)
  model::ForwardInputs prior;
  prior.positions = graph::take(graph::reshape(rows.positions, {count * window}), row);
  prior.levels = graph::reshape(array.level.time, {count, 1});
  prior.mask.query_start = graph::reshape(begin, {count});
  prior.mask.and_key_range(first_keys(rows), of_all_rows(rows, rows.block_end));
  prior.state = prior_state(rows);
  const Value behind = graph::broadcast(i32_of(graph, kNowhere), row.shape());
  prior.state.write_at =
      graph::reshape(graph::select(graph::less_equal(place, last), row, behind), {count * size});
  for (size_t i = 0; rows.kept.contains(stack_name(i)); ++i)
    prior.state.stacks.push_back(rows.kept.at(stack_name(i)));
  const Value flat = graph::reshape(array.numbers, {count * window, width});
  const Value made = noise::cola_velocity(rows.builder, prior, graph::take(flat, row));
  // Back to the window: place p has the number p - begin of its block.
  const Value own = graph::clamp(
      i32_of(graph, 0), graph::subtract(graph::iota(graph, {1, window}, DType::i32, 1), begin),
      i32_of(graph, size - 1));
  const Value block_row = graph::add(
      own, graph::multiply(graph::iota(graph, {count, 1}, DType::i32, 0), i32_of(graph, size)));
  return graph::take(graph::reshape(made, {count * size, width}), block_row);
}

Denoised ColaRule::denoise(const ArrayRows& rows, const NoisyArray& array) const {
  graph::Graph& graph = rows.builder.graph();
  const Value known = of_all_rows(rows, rows.kept.at(kKnown)),
              given = of_all_rows(rows, given_places(rows)),
              begin = per_request(of_all_rows(rows, rows.block_begin)),
              place = graph::iota(graph, {1, rows.window(), 1}, DType::i32, 1),
              before = graph::less(place, begin);
  const Value latents = graph::select(graph::logical_and(given, before), known, array.numbers);
  const Value velocity =
      is_cached_ ? velocity_of_block(rows, array) : velocity_of_window(rows, array, latents);
  const Value clean = graph::subtract(array.numbers, graph::multiply(array.level.time, velocity));
  const Value made = graph::select(before, array.numbers, clean);
  return {graph::select(given, known, made)};
}

ArrayText ColaRule::read(const ArrayRows& rows, Value read) const {
  graph::Graph& graph = rows.builder.graph();
  graph::Mask mask = graph::Mask::block_causal(block(graph));
  const Value length = lengths_of(rows.limit);
  mask.and_key_range(graph::subtract(length, length), length);
  const Value hidden = noise::cola_decode(rows.builder, read, rows.positions, mask);
  return {graph::reshape(hidden, {rows.rows() * rows.window(), hidden.dim(2)}),
          rows.builder.part(noise::cola_part::kDecoder).head()};
}

std::unique_ptr<Policy> make_cola(const PolicySetup& setup) {
  return std::make_unique<ArrayPolicy>(setup, std::make_shared<ColaRule>(setup));
}

} // namespace

PolicyKind policy_files::cola() {
  return {
      "cola",
      make_cola,
      {option_bool("prefix_cache", true,
                   "Keeps K and V of the blocks before in the prior; false: every step computes "
                   "them again.")},
      false};
}

} // namespace dllm::decode
