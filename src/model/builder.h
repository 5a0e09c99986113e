#pragma once
// Binds one graph to one model: parameters become graph inputs, layers become scans over them.

#include "graph/graph.h"
#include "graph/mask.h"
#include "model/layers/state.h"
#include "model/linear.h"
#include "model/model.h"

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
  graph::Value embeddings; // f32(batch, seq, hidden) instead of ids
  graph::Value
      positions; // i32(batch, seq); undefined: 0, 1, ... (two_stream wants 0.. twice: give them)
  graph::Value timesteps; // f32(batch), in steps; models with time conditioning only
  graph::Mask mask;
  bool empty_average = false; // a query without a key averages all values (dllm-jax)
  StateValues state; // kept between passes; the keys of mask are those of state.read_at then
  // i32(), 0 or 1: whether sliding layers slide, for a mask that says causal by other terms;
  // undefined: they do where the mask has the term causal and no table of a caller.
  graph::Value slides;
  // Of models with ModelConfig::canvas. i32(batch): the canvas begins at this key coordinate; undefined: there is none. The
  // mask lets its positions see each other; layers with a window show them the last window - 1 keys before it.
  graph::Value canvas_start;
  // i32(batch): the canvas goes on behind so many positions of the prefix and sees no more of it. With it the prefix is
  // causal and the canvas sees itself, whatever the mask says of places; undefined: the canvas goes on behind all.
  graph::Value canvas_context;
  graph::Value
      conditioning;      // f32(batch, seq, hidden), of Builder::mean_embedding; undefined: zeros
  bool round_kv = false; // K and V are rounded to bf16, as a bf16 cache would
};

struct ForwardOutputs {
  graph::Value
      hidden; // f32(batch, seq, hidden), after the last norm, in an encoder behind its prediction layer
  std::vector<graph::Value>
      taps;          // asked for: the embedding, then what each layer leaves; before the last norm
  StateValues state; // after the window was written
};

struct Head : Linear { // weight (rows, hidden)
  float softcap = 0;   // of what it gives; 0: none
};

// As whole() of a linear.
Head whole(const Head& head, graph::Value x);
// -log softmax(head(rows))[targets], f32(rows): rows (rows, hidden), targets i32(rows), count i32(): the rows in use
// (graph::linear_cross_entropy). The head may be cut over ranks.
graph::Value cross_entropy(const Head& head, graph::Value rows, graph::Value targets,
                           graph::Value count);

struct LayerInputs;

// A network of a model in one graph: the base with the adapters that the program reads. Lives as long as its graph is
// being built. Its construction makes one input "param:<physical>" (is_parameter) for every entry of these parts, in the
// order of ParamStore::physical().
class Builder {
public:
  // Shapes and dtypes alone are read from the model: a program fits every version of the same
  // model. Without a list of parts the program reads those of Model::reading().
  Builder(graph::Graph& graph, const Model& model);
  Builder(graph::Graph& graph, const Model& model, const PartList& parts);

  // The same network without its adapters, and another network among the parts that the program
  // reads. Both use the inputs that are there, and live as long as this builder. Settings like
  // set_remat() are those at the first call.
  Builder& without_adapters();
  Builder& part(const std::string& name); // fails with not_found

  graph::Graph& graph() const { return graph_; }
  const ModelConfig& config() const { return config_; }
  const ParamStore& params() const { return params_; }
  // The gradient recomputes every layer instead of keeping what it made.
  void set_remat(bool remat) { remat_ = remat; }
  bool remat() const { return remat_; }
  // Of the values that the layers keep for the gradient, so many are recomputed.
  void set_recompute(int64_t values) { recompute_ = values; }
  // What the layers keep for the gradient is kept as bf16.
  void set_round_kept(bool round) { round_kept_ = round; }
  // forward() cuts the positions of its rows over so many ranks of mesh axis sequence. Its inputs and outputs are those of whole rows,
  // equal on these ranks. 1: every rank computes all positions.
  void set_sequence_ranks(int64_t ranks) { sequence_ranks_ = ranks; }
  int64_t sequence_ranks() const { return sequence_ranks_; }

  // embed() and embedding_mix() round to bf16, as a model whose embeddings alone are bf16 computes (dllm-jax).
  void round_embeddings() { bf16_embeddings_ = true; }
  graph::Value rounded_embedding(graph::Value x) const; // x where they do not

  ForwardOutputs forward(const ForwardInputs& inputs, bool taps = false);
  // Result = softcap(linear(hidden, weight, bias, scale), softcap). "lm": the logits of the vocabulary; others as the
  // config lists them. Fails with not_found and the names there are.
  Head head(const std::string& name = "lm");
  graph::Value logits(graph::Value hidden); // small uses only
  graph::Value embed(graph::Value ids);     // rows of the embedding, f32, times embedding_scale
  // What softmax(logits) expects of embed(): logits f32(rows, vocab) -> f32(rows, hidden).
  graph::Value mean_embedding(graph::Value logits);

  // The inputs of all parts that the program reads, and their indices in ParamStore::physical().
  std::vector<graph::Value> parameters() const;
  std::vector<size_t> indices() const;
  graph::Value parameter(const std::string& physical_name); // undefined when there is none
  Linear linear(const std::string& physical_name);          // with its bias, scale, adapters
  // The scale of an int8 parameter, else undefined.
  graph::Value scale(const std::string& physical_name) {
    return parameter(physical_name + ".scale");
  }

private:
  struct Input {
    size_t index;     // in ParamStore::physical()
    std::string name; // in its network: "layers.q", "adapter:math/layers.q.lora_a"
    graph::Value value;
  };
  // A view of the inputs of `outer`.
  Builder(const Builder& outer, const ModelConfig& config, const PartList& parts);
  void find_inputs(const PartList& parts);
  Builder& view(const std::string& name, const ModelConfig& config, const PartList& parts);
  const ParamSpec& spec(size_t input) const {
    return params_.physical()[inputs_[input].index].spec;
  }

  struct SharedInputs; // of all layers
  SharedInputs shared_inputs(const ForwardInputs& inputs, graph::Value positions, int64_t seq);
  graph::Value normed(graph::Value x, const std::string& name); // by a norm outside the layers
  // Of models with a canvas: u8(batch, seq, 1), whether a position is on it; what it reads there; and u8(batch, seq, keys),
  // the keys that layers with a window show.
  graph::Value on_canvas(const ForwardInputs& inputs, int64_t batch, int64_t seq);
  graph::Value canvas_input(graph::Value embedded, graph::Value conditioning);
  graph::Value canvas_table(const ForwardInputs& inputs, int64_t batch, int64_t seq);
  graph::Value canvas_window(const ForwardInputs& inputs, int64_t batch, int64_t seq);
  graph::Value first_rows(int64_t layers, int64_t rows);
  std::vector<graph::Value> layer_params(const LayerRun& run, graph::Graph& body,
                                         LayerInputs& layer);
  // state: what the run's layers have written is in it afterwards.
  graph::ScanResult run_layers(const LayerRun& run, const SharedInputs& shared, graph::Value hidden,
                               StateValues& state, bool taps);

  graph::Graph& graph_;
  const Model& model_;
  const ModelConfig& config_; // of the network
  const ParamStore& params_;
  const std::vector<StateStack> stacks_;
  std::string network_;               // the part that it is
  std::vector<std::string> adapters_; // parts
  std::vector<Input> all_;            // of the program
  std::vector<Input> inputs_;         // of the network and its adapters
  std::map<std::string, size_t> index_;
  std::map<std::string, std::unique_ptr<Builder>> views_;
  bool bf16_embeddings_ = false;
  bool remat_ = false;
  int64_t recompute_ = 0;
  bool round_kept_ = false;
  int64_t sequence_ranks_ = 1;
};

// Soft inputs: a position's embedding as a mixture of several tokens and the mask (soft parallel
// decoding; DMax).

struct EmbeddingMix {
  graph::Value hard;    // f32(batch, seq, hidden): embeddings of the tokens themselves
  graph::Value ids;     // i32(batch, seq, width)
  graph::Value weights; // f32(batch, seq, width)
  graph::Value on;      // u8(batch, seq): 0: the hard embedding
};

// v = sum of w_k E(id_k) + r m with m = E(mask) and r = max(0, 1 - sum w_k), then v times
// (sum of w_k |E(id_k)| + r |m|) / (|v| + 1e-6). REQUIRES: the model has a mask token.
graph::Value embedding_mix(Builder& builder, const EmbeddingMix& mix);

} // namespace dllm::model
