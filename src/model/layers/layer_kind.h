#pragma once
// Layer kinds: the mixers and networks that layers are made of, listed in layer.cpp. In a mixer
// (attention) positions exchange values; a network (mlp, experts) works on each position alone.
// Each one reads normed input, and its result is added to the residual stream.

#include "graph/mask.h"
#include "model/config.h"
#include "model/layers/state.h"
#include "model/network/linear.h"
#include "model/params/param_map.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::model {

// The names of parameters in a family's files, by the name in dllm: "embedding", "norm", "head",
// and "q", "gate" ... in a layer. "{}" stands for the layer and "[]" for the expert. The file name
// of a bias is the name of its weight with "bias" as the last word, unless "q.bias" is listed.
struct TensorNames {
  std::map<std::string, std::string, std::less<>> files;
  // Prefix of layer kinds that the family does not name.
  std::string layer = "model.layers.{}.";
  bool transpose = false; // files store matrices as (in, out)

  std::string& operator[](const std::string& name) { return files[name]; }
  bool has(std::string_view name) const;
};

// Collects parameters in the order of their indices.
class ParamTable {
public:
  ParamTable(const ModelConfig& config, TensorNames names)
      : config_(config), names_(std::move(names)) {}

  // Begins the layers of a run. Names get the run's prefix and shapes a leading axis until
  // end_layers().
  void begin(const LayerRun& run);
  void set_kind(const std::string& kind) { kind_ = kind; }
  void end_layers();

  bool has(std::string_view name) const { return names_.has(name); }
  // Adds a parameter. `file` is the key in TensorNames where it differs from `name`.
  void add(const std::string& name, ParamRole role, Shape element, const std::string& file = "");
  // Adds a matrix (out, in) and, with `bias`, a bias (out).
  void matrix(const std::string& name, int64_t out, int64_t in, bool bias = false,
              const std::string& file = "");
  // Adds a norm, with a bias where the family names one.
  void norm(const std::string& name, int64_t size);
  // Adds a stack of one matrix (out, in) per expert. "[]" in the file name stands for the expert.
  // Without "[]" the file stores all experts in one tensor.
  void experts(const std::string& name, int64_t count, int64_t out, int64_t in);

  // The first values of the parameter that was added last, and of its bias, are 0.
  void set_zero();

  std::vector<ParamSpec> take() { return std::move(specs_); }

private:
  std::string file_of(const std::string& name) const;

  const ModelConfig& config_;
  TensorNames names_;
  std::string prefix_, kind_;
  int64_t layers_ = 0, first_layer_ = 0;
  std::vector<ParamSpec> specs_;
};

// The inputs of one layer in the body of a scan. All values belong to the graph of the body.
struct LayerInputs {
  const ModelConfig& config;
  const LayerRun& run;
  graph::Value positions = {}; // i32(batch, seq)
  graph::Value inv_freq = {};  // f32(rotary / 2) of this layer; undefined with learned positions
  // Embedding of the noise level: f32(batch, size) in models with time conditioning, f32(batch, n,
  // hidden) in towers with an adaptive level.
  graph::Value time = {};
  // For layers with cross attention: f32(batch, keys, size), and what a position sees of it.
  graph::Value context = {};
  graph::Mask context_mask = {};
  float rope_amplitude = 1;
  graph::Mask mask = {}; // with this layer's window
  // u8(batch, seq, 1): 1: the position is on the canvas (ModelConfig::canvas); undefined: none is.
  graph::Value on_canvas = {};
  bool empty_average = false;
  // Ranks over which the positions of x are cut; the mask is the one of whole rows.
  int64_t sequence_ranks = 1;
  LayerState* state = nullptr;                     // never null while a layer is built
  std::map<std::string, graph::Value> params = {}; // by name in its run: "q", "q.bias", "q.scale"
  std::map<std::string, float> factors = {};       // of the products of adapters, by the same names
  std::map<std::string, Partition> partitions = {};
  std::vector<NamedAdapter> adapters = {};    // their parameters are "adapter:math/q.lora_a"
  graph::Value row_adapters = {};             // Linear::choice
  std::map<std::string, float> dropouts = {}; // rates of these parts
  graph::Value dropout_keys = {}; // u32(batch, 2) of this layer; undefined: nothing is dropped

  Linear linear(const std::string& name) const;      // with its bias, scale and adapters
  graph::Value param(const std::string& name) const; // undefined when the layer has none
};

// The cost of a layer. A multiplication with an addition counts as two flops.
struct LayerCost {
  double per_token = 0; // flops per position
  double per_pair = 0;  // flops per pair of a position and a key that it attends to
};

enum class LayerPart { mixer, network };

struct LayerKind {
  const char* name; // name in the table: "attention"
  LayerPart part;
  void (*params)(ParamTable& table, const ModelConfig& config);
  // Maps normed x f32(batch, seq, hidden) to the value that is added to the residual stream.
  graph::Value (*build)(const LayerInputs& inputs, graph::Value x);
  LayerCost (*cost)(const ModelConfig& config);
  // The state slots of the layer. Null: decoding keeps nothing of it.
  std::vector<StateSlot> (*state)(const ModelConfig& config);
  // true: `build` gets the residual stream without a norm, and applies its own norms ("mlp_norm"
  // and others).
  bool norms_input = false;
  // true, for mixers: `build` works on positions that are cut over LayerInputs::sequence_ranks.
  bool cuts_positions = false;
};

extern const LayerKind kAttention, kCrossAttention, kExperts, kGatedDelta, kGlobalAttention, kMlp,
    kMlpExperts, kSelfCrossAttention;

// Returns the kind of this name. Fails with invalid_argument and the list of names.
const LayerKind& find_layer_kind(LayerPart part, const std::string& name);
// Adds a kind to the table for all models. Call it before any model uses the kind. `kind` must
// outlive all models. Fails with invalid_argument when the name is taken.
void add_layer_kind(const LayerKind& kind);

// Build one layer of a run: its parameters, its graph, its state slots and its cost.
void add_layer_params(ParamTable& table, const ModelConfig& config, const LayerRun& run);
graph::Value build_layer(const LayerInputs& inputs, graph::Value hidden);
std::vector<StateSlot> layer_slots(const ModelConfig& config, const LayerRun& run);
LayerCost layer_cost(const ModelConfig& config, const LayerRun& run);

// The norm of a block's input and the factor of its result, as ModelConfig has them. In a tower
// with an adaptive level both follow from the level; elsewhere the factor is 1. `gated`: the block
// has a factor.
void add_block_norm(ParamTable& table, const ModelConfig& config, const std::string& name,
                    bool gated);
graph::Value block_input(const LayerInputs& inputs, graph::Value x, const std::string& name);
graph::Value block_result(const LayerInputs& inputs, graph::Value y, const std::string& name);
// Repeats x (batch, n, size) over `seq` positions, seq / n for each: (batch, seq, size). With n = 1
// it returns x.
graph::Value over_positions(graph::Value x, int64_t seq);
// Returns layer_norm(x) (1 + scale) + shift, where (scale, shift) are the halves of `both`,
// f32(batch, n, 2 hidden): n equal parts of the positions have a level each.
graph::Value adaptive_norm(graph::Value x, graph::Value both, float eps);

// Building blocks of layer kinds.
graph::Value norm(const LayerInputs& inputs, graph::Value x, const std::string& name);
// Returns the factor of normed rows: the weight, or 1 + weight.
graph::Value norm_weight(const ModelConfig& config, graph::Value weight);
graph::Value linear_param(const LayerInputs& inputs, graph::Value x, const std::string& name);
// The experts that a row goes to, and the share of each expert in the sum.
struct ExpertChoice {
  graph::Value experts; // i32(rows, per_token), best first
  graph::Value shares;  // f32(rows, per_token)
};
// Chooses the experts of each row. `logits` is f32(rows, count), `bias` is f32(count) or undefined,
// `positions` is i32(batch, seq) with batch * seq rows.
ExpertChoice choose_experts(const ExpertConfig& experts, graph::Value logits, graph::Value bias,
                            graph::Value positions);
// Add the parameters of the experts, and compute for every row of x (batch, seq, hidden) the sum of
// the results of its chosen experts.
void add_expert_stacks(ParamTable& table, const ModelConfig& config);
graph::Value mix_experts(const LayerInputs& inputs, graph::Value x, const ExpertChoice& choice);
// Builds the network of kind mlp from the matrices up and down. A gated network also has gate, or
// gate_up with the rows of both.
graph::Value mlp_block(const LayerInputs& inputs, graph::Value x);

} // namespace dllm::model
