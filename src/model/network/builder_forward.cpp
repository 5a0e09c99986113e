// Builds the layers of a forward pass. Every run of equal layers is one scan over its parameters.

#include "model/network/builder.h"

#include "base/error.h"
#include "graph/ops.h"
#include "model/config.h"
#include "model/layers/layer_kind.h"
#include "model/network/filler.h"
#include "model/network/row_parts.h"
#include "model/network/sinusoid.h"
#include "model/params/part.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace dllm::model {
namespace {

// Makes outer values available in the body of a scan. The body has only its inputs, so every outer
// value becomes a constant of the loop.
class BodyConstants {
public:
  explicit BodyConstants(graph::Graph& body) : body_(body) {}

  graph::Value inner(graph::Value outer, const std::string& name) {
    if (!outer.defined()) return {};
    for (size_t i = 0; i < outer_.size(); ++i) {
      if (outer_[i] == outer) return inner_[i];
    }
    outer_.push_back(outer);
    inner_.push_back(body_.input(name, outer.type()));
    return inner_.back();
  }
  graph::Mask inner(const graph::Mask& mask, const std::string& prefix = "") {
    graph::Mask made = mask;
    made.query_start = inner(mask.query_start, prefix + "query_start");
    for (graph::MaskTerm& term : made.terms) {
      for (size_t i = 0; i < term.params.size(); ++i) {
        term.params[i] = inner(term.params[i],
                               prefix + graph::mask_kind_name(term.kind) + "." + std::to_string(i));
      }
    }
    return made;
  }
  const std::vector<graph::Value>& outer() const { return outer_; }

private:
  graph::Graph& body_;
  std::vector<graph::Value> outer_, inner_;
};

// Returns the embedding of the noise level u = t / steps (nano-dlm, src/model.py): a sinusoid, then
// two layers with silu between them.
graph::Value time_embedding(Builder& builder, graph::Value timesteps) {
  const ModelConfig& config = builder.config();
  graph::Graph& graph = builder.graph();
  const int64_t batch = timesteps.dim(0);
  const graph::Value u =
      graph::divide(timesteps, graph::scalar(graph, static_cast<float>(config.time_steps)));
  const auto layer = [&](graph::Value x, const std::string& name) {
    return product(builder.linear(name), x);
  };
  return layer(
      graph::silu(layer(sinusoid(graph::reshape(u, {batch, 1}), config.hidden_size), "time.in")),
      "time.out");
}

graph::Value default_positions(graph::Graph& graph, int64_t batch, int64_t seq) {
  return graph::broadcast(graph::iota(graph, {seq}, DType::i32, 0), {batch, seq});
}

} // namespace

namespace {

// Returns these rows of all positions, or all positions when `rows` is undefined.
graph::Value tapped(graph::Value own, graph::Value rows, int64_t ranks) {
  const graph::Value all = all_positions(own, ranks);
  if (!rows.defined()) return all;
  return graph::take(graph::reshape(all, {all.dim(0) * all.dim(1), all.dim(2)}), rows);
}

} // namespace

// Values of the outer graph that all layers share.
struct Builder::SharedInputs {
  graph::Value positions, time, inv_freq;
  float amplitude = 1;
  // f32(layers, rotary / 2), in place of inv_freq where layers differ.
  graph::Value inv_freqs;
  // i32(layers): the reach of each layer's window; undefined: no layer has a window.
  graph::Value reaches;
  // For each stack of the state, i32(its layers): the first row of a layer. Stacks of equal layout
  // share one value.
  std::vector<graph::Value> first_rows;
  graph::Mask mask;
  graph::Value on_canvas, canvas_window; // for models with a canvas
  graph::Value tap_rows;
  graph::Value context;
  graph::Mask context_mask;
  graph::Value dropout_keys; // u32(layers, batch, 2)
  bool empty_average = false, round_kv = false;
};

namespace {

// Returns true when windows narrow the mask. A window narrows causal attention; a window to both
// sides narrows any attention. Other masks stay as they are. A dense table of a caller replaces the
// window, as Hugging Face's 4-D masks and every published conversion to diffusion do.
bool slides(const ModelConfig& config, const graph::Mask& mask) {
  const auto has = [&](graph::MaskKind kind) {
    return std::any_of(mask.terms.begin(), mask.terms.end(),
                       [&](const graph::MaskTerm& term) { return term.kind == kind; });
  };
  const bool narrows = config.window_both_sides || has(graph::MaskKind::causal);
  return narrows && !has(graph::MaskKind::dense);
}

constexpr int32_t kAll = int32_t{1} << 30; // a reach that covers every row

Tensor window_reaches(const ModelConfig& config) {
  Tensor reaches(DType::i32, {config.layers});
  for (size_t i = 0; i < config.sliding.size(); ++i) {
    reaches.mutable_as<int32_t>()[i] =
        config.sliding[i] ? static_cast<int32_t>(config.window - 1) : kAll;
  }
  return reaches;
}

// Returns one row of frequencies per layer: `all` where a layer attends to everything, its own
// where the layer slides.
Tensor layer_frequencies(const ModelConfig& config, const Tensor& all, int64_t seq) {
  ModelConfig local = config;
  local.rope = RopeConfig();
  local.rope.theta = config.sliding_theta;
  local.rope.partial = config.rope.type == "proportional" ? 1.0 : config.rope.partial;
  const Tensor own = rope_table(local, seq).inv_freq;
  const int64_t width = std::max(own.shape()[0], all.shape()[0]); // shorter ones end in zeros
  Tensor rows(DType::f32, {config.layers, width});
  float* to = rows.mutable_as<float>().data();
  for (const bool sliding : config.sliding) {
    const Tensor& from = sliding ? own : all;
    std::copy(from.as<float>().begin(), from.as<float>().end(), to);
    to += width;
  }
  return rows;
}

} // namespace

// Returns the index of the first row of each layer, for `layers` layers of `rows` rows.
graph::Value Builder::first_rows(int64_t layers, int64_t rows) {
  return graph::multiply(graph::iota(graph_, {layers}, DType::i32, 0),
                         graph::scalar_i32(graph_, static_cast<int32_t>(rows / layers)));
}

Builder::SharedInputs Builder::shared_inputs(const ForwardInputs& inputs, graph::Value positions,
                                             int64_t seq) {
  SharedInputs made;
  made.positions = positions;
  made.mask = inputs.mask;
  made.empty_average = inputs.empty_average;
  made.round_kv = inputs.round_kv;
  made.tap_rows = inputs.tap_rows;
  std::map<std::pair<int64_t, int64_t>, graph::Value> by_layout;
  for (size_t i = 0; i < inputs.state.stacks.size(); ++i) {
    const std::pair<int64_t, int64_t> layout{static_cast<int64_t>(stacks_[i].layers.size()),
                                             inputs.state.stacks[i].dim(0)};
    graph::Value& first = by_layout[layout];
    if (!first.defined()) first = first_rows(layout.first, layout.second);
    made.first_rows.push_back(first);
  }
  if (config_.positions == PositionKind::rotary) {
    const RopeTable table = rope_table(with_global_heads(config_), seq);
    made.amplitude = table.amplitude;
    if (config_.sliding_theta > 0)
      made.inv_freqs = graph::constant(graph_, layer_frequencies(config_, table.inv_freq, seq));
    else
      made.inv_freq = graph::constant(graph_, table.inv_freq);
  }
  if (inputs.canvas_start.defined()) {
    const int64_t batch = positions.dim(0);
    made.on_canvas = on_canvas(inputs, batch, seq);
    if (inputs.canvas_context.defined()) made.mask.and_dense(canvas_table(inputs, batch, seq));
    if (!config_.sliding.empty()) made.canvas_window = canvas_window(inputs, batch, seq);
  } else if (!config_.sliding.empty() && (inputs.slides.defined() || slides(config_, inputs.mask)))
    made.reaches = graph::constant(graph_, window_reaches(config_));
  if (made.reaches.defined() && inputs.slides.defined()) {
    const graph::Value off = graph::subtract(graph::scalar_i32(graph_, 1), inputs.slides);
    made.reaches =
        graph::maximum(made.reaches, graph::multiply(off, graph::scalar_i32(graph_, kAll)));
  }
  if (config_.time_conditioning) {
    if (!inputs.timesteps.defined()) {
      fail(Code::invalid_argument,
           "the model is conditioned on time: timesteps (batch) are needed");
    }
    made.time = time_embedding(*this, inputs.timesteps);
  }
  made.context = inputs.context;
  made.context_mask = inputs.context_mask;
  if (config_.tower.level == LevelKind::adaptive)
    made.time = graph::silu(tower_levels(inputs, positions.dim(0)));
  made.dropout_keys = layer_dropout_keys(positions.dim(0));
  return made;
}

// Returns a key for each layer and row, u32(layers, batch, 2), which differs from pass to pass.
// Undefined: nothing is dropped.
graph::Value Builder::layer_dropout_keys(int64_t batch) {
  if (!dropout_keys_.defined() || dropouts_.empty()) return {};
  if (dropout_keys_.dim(0) != batch) {
    fail_with_hint("set dropout of the adapter to 0", Code::unimplemented,
                   "the loss runs the model on {} rows, and the batch has {}: adapters of such a "
                   "loss cannot have dropout",
                   batch, dropout_keys_.dim(0));
  }
  if (sequence_ranks_ > 1) {
    fail_with_hint("set dropout of the adapter to 0, or leave axis sequence out of the mesh",
                   Code::unimplemented,
                   "dropout of adapters is not made for rows that are cut over {} ranks",
                   sequence_ranks_);
  }
  const std::vector<uint32_t> pass = {static_cast<uint32_t>(passes_++), 0};
  const graph::Value keys =
      graph::logical_xor(dropout_keys_, graph::constant(graph_, Tensor::from(Shape{1, 2}, pass)));
  const graph::Value words =
      graph::random_bits(keys, {batch, config_.layers, 2}); // a row has a key of its own
  return graph::transpose(words, {1, 0, 2});
}

namespace {

// Adds numbers that differ from layer to layer to the stacks that a scan iterates over.
struct PerLayer {
  graph::Graph& body;
  std::vector<graph::Value>& stacks;
  int64_t count;

  graph::Value operator()(graph::Value all, int64_t first, const std::string& name) {
    if (!all.defined()) return {};
    stacks.push_back(graph::slice_axis(all, 0, first, first + count));
    return body.input(name, {all.shape().without(0), all.dtype(), all.type().axes});
  }
};

// The part of the state that belongs to the layers of a run, inside the body of its scan.
class RunState {
public:
  RunState(graph::Graph& body, const ModelConfig& config, const LayerRun& run,
           const std::vector<StateStack>& stacks, const StateValues& state) {
    if (!state.defined()) {
      for (StateSlot& slot : layer_slots(config, run))
        entries_.push_back({std::move(slot), {}, {}, {}, {}, {}});
      return;
    }
    for (size_t i = 0; i < stacks.size(); ++i) {
      const auto found =
          std::lower_bound(stacks[i].layers.begin(), stacks[i].layers.end(), run.first);
      if (found == stacks[i].layers.end() || *found != run.first) continue;
      numbers_.push_back(i);
      offsets_.push_back(found - stacks[i].layers.begin());
      entries_.push_back(
          {stacks[i].slot, body.input(stacks[i].name, state.stacks[i].type()), {}, {}, {}, {}});
    }
  }

  void add_first_rows(PerLayer& per_layer, const std::vector<graph::Value>& all) {
    for (size_t i = 0; i < numbers_.size(); ++i) {
      const graph::Value outer = all[numbers_[i]];
      const auto same = std::find(outer_rows_.begin(), outer_rows_.end(), outer);
      const bool known = same != outer_rows_.end();
      first_rows_.push_back(known
                                ? first_rows_[static_cast<size_t>(same - outer_rows_.begin())]
                                : per_layer(outer, offsets_[i],
                                            i == 0 ? "first_row" : fmt::format("first_row.{}", i)));
      outer_rows_.push_back(outer);
    }
  }

  LayerState inside(BodyConstants& constants, const StateValues& state, bool rounds) {
    graph::Value begun, from, length;
    for (size_t i = 0; i < numbers_.size(); ++i) {
      LayerState::Entry& entry = entries_[i];
      const size_t twin = static_cast<size_t>(
          std::find(first_rows_.begin(), first_rows_.end(), first_rows_[i]) - first_rows_.begin());
      const LayerState::Entry& first = entries_[twin];
      if (twin < i && first.slot.is_saved() == entry.slot.is_saved()) {
        entry = {entry.slot, entry.stack, first.write_at, first.read_at, first.from, first.to};
      } else if (!entry.slot.is_saved()) {
        entry.write_at = graph::add(constants.inner(state.write_at, "write_at"), first_rows_[i]);
        entry.read_at = graph::add(constants.inner(state.read_at, "read_at"), first_rows_[i]);
      } else {
        if (!begun.defined()) {
          from = constants.inner(state.from, "from");
          const graph::Value zero = graph::scalar_i32(*from.graph, 0);
          begun = graph::greater_equal(from, zero);
          from = graph::maximum(from, zero);
          length = constants.inner(state.length, "length");
        }
        entry.from = graph::add(from, first_rows_[i]);
        entry.to = graph::add(constants.inner(state.to, "to"), first_rows_[i]);
      }
    }
    return {entries_, begun, length, rounds};
  }

  std::vector<graph::Value> carries(const StateValues& state) const {
    std::vector<graph::Value> values;
    for (const size_t number : numbers_) values.push_back(state.stacks[number]);
    return values;
  }
  // `result` is the result of the scan. The states follow the hidden states.
  void replace(StateValues& state, const graph::ScanResult& result) const {
    for (size_t i = 0; i < numbers_.size(); ++i) state.stacks[numbers_[i]] = result.carry[1 + i];
  }

private:
  std::vector<size_t> numbers_;  // indices of the stacks; entries are in the same order
  std::vector<int64_t> offsets_; // place of the run's first layer in each stack
  std::vector<LayerState::Entry> entries_;
  std::vector<graph::Value> outer_rows_, first_rows_;
};

} // namespace

// Returns the run's stacks of parameters, and makes one layer of each an input of the body.
std::vector<graph::Value> Builder::layer_params(const LayerRun& run, graph::Graph& body,
                                                LayerInputs& layer) {
  std::vector<graph::Value> stacks;
  const std::string prefix = run.prefix();
  layer.adapters = adapters_;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const auto [part, own] = split_name(inputs_[i].name); // an adapter, or the network itself
    if (!own.starts_with(prefix)) continue;
    const std::string input = qualified_name(part, own.substr(prefix.size()));
    const std::string name = is_copy(i) ? own.substr(prefix.size()) : input;
    const graph::ValueType& type = inputs_[i].value.type();
    layer.factors[name] = factor(i);
    layer.partitions[name] = spec(i).partition;
    layer.params[name] =
        body.input(input, {type.shape.without(0), type.dtype, type.axes, type.format}, true);
    if (is_copy(i)) layer.params.erase(name + ".scale");
    stacks.push_back(inputs_[i].value);
  }
  return stacks;
}

graph::ScanResult Builder::run_layers(const LayerRun& run, const SharedInputs& shared,
                                      graph::Value hidden, StateValues& state, bool taps) {
  const auto body = std::make_shared<graph::Graph>("layer");
  const graph::Value carry = body->input("hidden", hidden.type());
  LayerInputs layer{.config = config_, .run = run};
  layer.rope_amplitude = shared.amplitude;
  layer.empty_average = shared.empty_average;
  layer.sequence_ranks = sequence_ranks_;
  RunState own(*body, config_, run, stacks_, state);
  std::vector<graph::Value> stacks = layer_params(run, *body, layer);
  PerLayer per_layer{*body, stacks, run.count};
  const graph::Value reach = per_layer(shared.reaches, run.first, "reach");
  own.add_first_rows(per_layer, shared.first_rows);
  layer.inv_freq = per_layer(shared.inv_freqs, run.first, "inv_freq");
  layer.dropout_keys = per_layer(shared.dropout_keys, run.first, "dropout_keys");
  layer.dropouts = dropouts_;

  BodyConstants constants(*body);
  layer.positions = constants.inner(shared.positions, "positions");
  if (!layer.inv_freq.defined()) layer.inv_freq = constants.inner(shared.inv_freq, "inv_freq");
  layer.time = constants.inner(shared.time, "time");
  layer.context = constants.inner(shared.context, "context");
  layer.context_mask = constants.inner(shared.context_mask, "context.");
  layer.row_adapters = constants.inner(row_adapters_, "adapter");
  layer.mask = constants.inner(shared.mask);
  if (reach.defined()) layer.mask.and_window(reach);
  // Where the heads of sliding and other layers differ, all layers of a run slide or none does.
  if (shared.canvas_window.defined() && config_.sliding[static_cast<size_t>(run.first)])
    layer.mask.and_dense(constants.inner(shared.canvas_window, "canvas_window"));
  layer.on_canvas = constants.inner(shared.on_canvas, "on_canvas");
  LayerState kept = own.inside(constants, state, shared.round_kv);
  layer.state = &kept;
  const graph::Value next = build_layer(layer, carry);
  body->output("hidden", next);
  std::vector<graph::Value> carries = own.carries(state);
  for (size_t i = 0; i < carries.size(); ++i)
    body->output(kept.entries()[i].slot.name, kept.entries()[i].stack);
  if (taps) {
    const graph::Value rows = constants.inner(shared.tap_rows, "tap_rows");
    body->output("tap", tapped(next, rows, sequence_ranks_));
  }

  carries.insert(carries.begin(), hidden);
  graph::ScanOptions options;
  options.remat = remat_;
  options.recompute = recompute_;
  options.round_kept = round_kept_;
  graph::ScanResult result =
      graph::scan(body, carries, stacks, constants.outer(), run.count, options);
  own.replace(state, result);
  return result;
}

ForwardOutputs Builder::forward(const ForwardInputs& inputs, bool taps) {
  if (!keeps_next_) return forward_pass(inputs, taps);
  keeps_next_ = false;
  return kept_ = forward_pass(inputs, true);
}

// Only the base has a filler.
bool Builder::has_filler(const ForwardInputs& inputs) const {
  return config_.filler.on() && network_ == kBasePart && inputs.fills && inputs.ids.defined();
}

ForwardOutputs Builder::forward_pass(const ForwardInputs& given, bool taps) {
  ForwardInputs inputs = given;
  if (config_.tower.on) inputs.embeddings = tower_stream(given);
  if (has_filler(inputs)) {
    const FilledInput filled = fill_masks(*this, inputs);
    inputs.embeddings = filled.embeddings;
    if (!filled_.at.defined()) filled_ = filled.masks;
  }
  const graph::Value rows = inputs.embeddings.defined() ? inputs.embeddings : inputs.ids;
  const int64_t batch = rows.dim(0), seq = rows.dim(1), ranks = sequence_ranks_;
  const graph::Value own = own_positions(rows, ranks);
  graph::Value hidden = inputs.embeddings.defined() ? own : embed(own);
  const graph::Value positions = own_positions(
      inputs.positions.defined() ? inputs.positions : default_positions(graph_, batch, seq), ranks);
  if (config_.positions == PositionKind::learned)
    hidden = graph::add(hidden, graph::take(parameter("positions"), positions));
  if (config_.token_types > 0)
    hidden = graph::add(hidden, graph::slice_axis(parameter("token_types"), 0, 0, 1));
  if (inputs.canvas_start.defined()) {
    const graph::Value on = graph::broadcast(on_canvas(inputs, batch, seq), hidden.shape());
    hidden = graph::select(on, canvas_input(hidden, inputs.conditioning), hidden);
  }
  if (config_.embedding_norm) hidden = normed(hidden, "embedding_norm");

  ForwardOutputs outputs;
  outputs.state = inputs.state;
  if (taps) outputs.taps.push_back(tapped(hidden, inputs.tap_rows, ranks));
  const SharedInputs shared = shared_inputs(inputs, positions, seq);
  for (const LayerRun& run : layer_runs(config_, params_.cuts_of(network_))) {
    const graph::ScanResult result = run_layers(run, shared, hidden, outputs.state, taps);
    hidden = result.carry[0];
    for (int64_t i = 0; taps && i < run.count; ++i) {
      const graph::Value left = graph::slice_axis(result.stacked[0], 0, i, i + 1);
      outputs.taps.push_back(graph::reshape(left, left.shape().without(0)));
    }
  }
  if (config_.norm_after || (config_.tower.on && !config_.tower.last_norm))
    outputs.hidden = hidden;
  else if (shared.time.defined() && config_.tower.on)
    outputs.hidden = adaptive_norm(hidden, product(linear("norm.in"), shared.time),
                                   static_cast<float>(config_.norm_eps));
  else
    outputs.hidden = normed(hidden, "norm");
  if (config_.prediction_layer) {
    const std::string& own = config_.prediction_activation;
    const std::string& kind = own.empty() ? config_.activation : own;
    const graph::Value dense = product(linear("prediction"), outputs.hidden);
    outputs.hidden = normed(graph::activation(dense, kind), "prediction_norm");
  }
  outputs.hidden = all_positions(outputs.hidden, ranks);
  return outputs;
}

graph::Value Builder::normed(graph::Value x, const std::string& name) {
  const auto eps = static_cast<float>(config_.norm_eps);
  if (config_.norm == NormKind::rms)
    return graph::rms_norm(x, norm_weight(config_, parameter(name)), eps);
  return graph::layer_norm(x, parameter(name), parameter(name + ".bias"), eps);
}

} // namespace dllm::model
