#pragma once
// Builds the graph of a model's forward pass. Parameters become inputs of the graph, and layers
// become scans over them.

#include "graph/graph.h"
#include "graph/mask.h"
#include "model/layers/state.h"
#include "model/model.h"
#include "model/network/linear.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dllm::graph {
struct ScanResult;
} // namespace dllm::graph

namespace dllm::model {

struct ForwardInputs {
  graph::Value ids;        // i32(batch, seq)
  graph::Value embeddings; // f32(batch, seq, hidden), in place of ids
  // i32(batch, seq); undefined: 0, 1, ... Rows of two_stream need positions, because both halves
  // count from 0.
  graph::Value positions;
  // f32(batch), in steps; only for models with time conditioning.
  graph::Value timesteps;
  graph::Mask mask;
  // true: a query without a key averages all values (dllm-jax).
  bool empty_average = false;
  // State that is kept between passes. The keys of `mask` are then the keys of state.read_at.
  StateValues state;
  // i32(), 1: sliding layers slide, 0: they do not; for a mask that is causal through other terms.
  // Undefined: sliding layers slide where the mask has the term causal and no dense table.
  graph::Value slides;
  // i32(batch), for models with ModelConfig::canvas: the key coordinate where the canvas begins;
  // undefined: there is no canvas. The mask lets the positions of the canvas see each other. Layers
  // with a window show these positions the last window - 1 keys before the canvas.
  graph::Value canvas_start;
  // i32(batch): the canvas sees the first `canvas_context` positions of the prefix, and itself. The
  // prefix is then causal whatever the mask is. Undefined: the canvas sees the whole prefix.
  graph::Value canvas_context;
  // f32(batch, seq, hidden), from Builder::mean_embedding; undefined: zeros.
  graph::Value conditioning;
  // For a base with a mask filler, which changes the input at positions of `ids` that hold the mask
  // token. false: the rows have no such position, or the pass sees only a part of them.
  bool fills = true;
  // f32(batch): 1: the row has the filler, 0: it has not; undefined: every row has it.
  graph::Value filler_on;
  // i32(batch): given positions at the front, for a filler that reads the prompt. A negative
  // number, and an undefined value: the positions before the first mask token.
  graph::Value filler_start;
  // f32(batch, seq, hidden): standard normal numbers of a Gaussian filler; undefined: its mean.
  graph::Value filler_noise;
  // u32(batch, 2): keys of such numbers, one for each row.
  graph::Value filler_keys;
  // For towers (ModelConfig::tower). `embeddings` is the stream, f32(batch, seq, hidden); a tower
  // with latents of its own begins with them.
  // f32(batch, keys, context size), and what a position sees of it.
  graph::Value context;
  graph::Mask context_mask;
  // f32(batch) or f32(batch, n): noise levels. n equal parts of the positions have a level each.
  graph::Value levels;
  bool round_kv = false; // K and V are rounded to bf16, as a bf16 cache would
  // i32(n): the taps are these rows of (batch * seq, hidden), as (n, hidden). Undefined: the taps
  // are (batch, seq, hidden).
  graph::Value tap_rows;
};

struct ForwardOutputs {
  // f32(batch, seq, hidden), after the last norm; in an encoder after its prediction layer.
  graph::Value hidden;
  // With `taps`: the embedding, then the result of each layer before the last norm.
  std::vector<graph::Value> taps;
  StateValues state; // after the window was written
};

// What a mask filler computed, f32(batch, seq, hidden) unless a comment says otherwise.
struct FilledMasks {
  graph::Value at;        // f32(batch, seq): 1 where the input was changed; undefined: no filler
  graph::Value mean;      // before FillerConfig::scale
  graph::Value log_sigma; // of a Gaussian filler
  graph::Value vectors;   // what is added, or replaces the embedding
};

// A linear whose weight is (rows, hidden).
struct Head : Linear {
  float softcap = 0; // of the results; 0: none
};

// Returns the head as whole() of its linear does.
Head whole(const Head& head, graph::Value x);
// Returns -log softmax(head(rows))[targets] as f32(rows) (graph::linear_cross_entropy). `rows` is
// (rows, hidden), `targets` is i32(rows), and `count` is i32(), the number of rows in use. The head
// may be cut over ranks.
graph::Value cross_entropy(const Head& head, graph::Value rows, graph::Value targets,
                           graph::Value count);

struct LayerInputs;

// A network of a model in one graph: the base with the adapters that the program reads. A Builder
// lives while its graph is built. The constructor makes one input "param:<physical>" (is_parameter)
// for every parameter of the parts, in the order of ParamStore::physical().
class Builder {
public:
  // Reads only shapes and dtypes from the model, so a program fits every version of the model.
  // Without a list of parts the program reads the parts of Model::reading().
  Builder(graph::Graph& graph, const Model& model);
  // `changing` has the indices of parameters that change after every run, in order. Their inputs
  // are not is_parameter, so that engines keep no packed forms of them.
  Builder(graph::Graph& graph, const Model& model, const PartList& parts,
          std::span<const size_t> changing = {});

  // Return the same network without its adapters, and another network among the parts that the
  // program reads. Both use the existing inputs and live as long as this builder. Settings such as
  // set_remat() are copied by the first call.
  Builder& without_adapters();
  Builder& part(const std::string& name); // fails with not_found

  graph::Graph& graph() const { return graph_; }
  const ModelConfig& config() const { return config_; }
  const ParamStore& params() const { return params_; }
  // With `remat` the gradient recomputes every layer and keeps no values of the layer.
  void set_remat(bool remat) { remat_ = remat; }
  bool remat() const { return remat_; }
  // The gradient recomputes this number of the values that layers would keep for it.
  void set_recompute(int64_t values) { recompute_ = values; }
  // With `round` the values that layers keep for the gradient are rounded to bf16.
  void set_round_kept(bool round) { round_kept_ = round; }
  // forward() drops inputs of the adapters that have dropout. keys: u32(batch, 2), one of each row.
  void set_dropout_keys(graph::Value keys) { dropout_keys_ = keys; }
  // Each row of the batch has one of the adapters of the program, or none. slots: i32(batch), 1 is
  // the first adapter of the list of parts, and 0 is none. Without it rows have all adapters.
  void set_row_adapters(graph::Value slots) { row_adapters_ = slots; }
  // forward() cuts the positions of its rows over this number of ranks of mesh axis sequence. Its
  // inputs and outputs are whole rows that are equal on these ranks. 1: every rank computes all
  // positions.
  void set_sequence_ranks(int64_t ranks) { sequence_ranks_ = ranks; }
  int64_t sequence_ranks() const { return sequence_ranks_; }

  // The gradient that arrives at the result of the mask filler is multiplied by `factor`.
  void set_filler_gradient(float factor) { filler_gradient_ = factor; }
  float filler_gradient() const { return filler_gradient_; }
  // Returns what the mask filler computed in the first pass that had it.
  const FilledMasks& filled() const { return filled_; }

  // embed() and embedding_mix() round to bf16, as a model computes whose embeddings alone are bf16
  // (dllm-jax).
  void round_embeddings() { bf16_embeddings_ = true; }
  // Returns x unchanged without round_embeddings().
  graph::Value rounded_embedding(graph::Value x) const;

  ForwardOutputs forward(const ForwardInputs& inputs, bool taps = false);
  // Keeps the outputs of the next pass, with its taps, for kept(). So a term of a loss reads the
  // pass that the loss makes.
  void keep_next_pass() { keeps_next_ = true; }
  const ForwardOutputs& kept() const { return kept_; } // `hidden` is undefined before such a pass
  // Returns a head: softcap(linear(hidden, weight, bias, scale), softcap). "lm" gives the logits of
  // the vocabulary; the config lists the others. Fails with not_found and the names of all heads.
  Head head(const std::string& name = "lm");
  // Returns a matrix into the stream of a tower. Fails with not_found and the names of all inputs.
  Linear input(const std::string& name);
  graph::Value logits(graph::Value hidden); // makes all logits at once: for small uses
  // Returns rows of the embedding, f32, times embedding_scale.
  graph::Value embed(graph::Value ids);
  // Returns the mean of embed() under softmax(logits): f32(rows, vocab) -> f32(rows, hidden).
  graph::Value mean_embedding(graph::Value logits);

  // Return the inputs of all parts that the program reads, and their indices in
  // ParamStore::physical().
  std::vector<graph::Value> parameters() const;
  std::vector<size_t> indices() const;
  graph::Value parameter(const std::string& physical_name); // undefined when there is none
  Linear linear(const std::string& physical_name);          // with its bias, scale and adapters
  // Returns the scale of an int8 parameter, else an undefined value.
  graph::Value scale(const std::string& physical_name) {
    return parameter(physical_name + ".scale");
  }

private:
  struct Input {
    size_t index;     // index in ParamStore::physical()
    std::string name; // name in its network: "layers.q", "adapter:math/layers.q.lora_a"
    graph::Value value;
  };
  // Makes a view of the inputs of `outer`.
  Builder(const Builder& outer, const ModelConfig& config, const PartList& parts);
  void find_inputs(const PartList& parts);
  Builder& view(const std::string& name, const ModelConfig& config, const PartList& parts);
  const ParamSpec& spec(size_t input) const {
    return params_.physical()[inputs_[input].index].spec;
  }
  // Returns true for a parameter that stands for the one of the base with the same name.
  bool is_copy(size_t input) const;
  // Returns the factor of an adapter's product, with the weight of its part.
  float factor(size_t input) const;

  struct SharedInputs; // inputs that all layers share
  SharedInputs shared_inputs(const ForwardInputs& inputs, graph::Value positions, int64_t seq);
  graph::Value tower_stream(const ForwardInputs& inputs);
  graph::Value tower_levels(const ForwardInputs& inputs, int64_t batch);
  // Applies a norm outside of the layers.
  graph::Value normed(graph::Value x, const std::string& name);
  // For models with a canvas: u8(batch, seq, 1), 1 for positions on the canvas, and the input at
  // these positions. canvas_table and canvas_window return u8(batch, seq, keys), 1 for keys that
  // are visible.
  graph::Value on_canvas(const ForwardInputs& inputs, int64_t batch, int64_t seq);
  graph::Value canvas_input(graph::Value embedded, graph::Value conditioning);
  graph::Value canvas_table(const ForwardInputs& inputs, int64_t batch, int64_t seq);
  graph::Value canvas_window(const ForwardInputs& inputs, int64_t batch, int64_t seq);
  graph::Value first_rows(int64_t layers, int64_t rows);
  graph::Value layer_dropout_keys(int64_t batch);
  std::vector<graph::Value> layer_params(const LayerRun& run, graph::Graph& body,
                                         LayerInputs& layer);
  // Builds the layers of a run. `state` then holds the values that these layers wrote.
  graph::ScanResult run_layers(const LayerRun& run, const SharedInputs& shared, graph::Value hidden,
                               StateValues& state, bool taps);
  bool has_filler(const ForwardInputs& inputs) const;
  ForwardOutputs forward_pass(const ForwardInputs& inputs, bool taps);

  graph::Graph& graph_;
  const Model& model_;
  const ModelConfig& config_; // config of the network
  const ParamStore& params_;
  const std::vector<StateStack> stacks_;
  std::string network_; // name of the part
  std::vector<NamedAdapter> adapters_;
  PartList parts_;            // the network and its adapters, with their weights
  std::vector<Input> all_;    // inputs of the program
  std::vector<Input> inputs_; // inputs of the network and its adapters
  std::map<std::string, size_t> index_;
  std::map<std::string, std::unique_ptr<Builder>> views_;
  std::map<std::string, float> dropouts_; // rates of the adapters that have dropout
  graph::Value dropout_keys_, row_adapters_;
  uint64_t passes_ = 0; // passes with dropout
  bool bf16_embeddings_ = false;
  bool remat_ = false;
  int64_t recompute_ = 0;
  bool round_kept_ = false;
  int64_t sequence_ranks_ = 1;
  float filler_gradient_ = 1;
  FilledMasks filled_;
  bool keeps_next_ = false;
  ForwardOutputs kept_;
};

// Soft inputs: the embedding of a position is a weighted mean of several tokens and the mask token
// (soft parallel decoding; DMax).

struct EmbeddingMix {
  graph::Value hard;    // f32(batch, seq, hidden): embeddings of the tokens themselves
  graph::Value ids;     // i32(batch, seq, width)
  graph::Value weights; // f32(batch, seq, width)
  graph::Value on;      // u8(batch, seq): 1: the mixture, 0: the hard embedding
};

// Returns the embeddings of the mixtures. With m = E(mask) and r = max(0, 1 - sum of w_k)
//   v = sum of w_k E(id_k) + r m,  result = v (sum of w_k |E(id_k)| + r |m|) / (|v| + 1e-6).
// REQUIRES: the model has a mask token.
graph::Value embedding_mix(Builder& builder, const EmbeddingMix& mix);

} // namespace dllm::model
