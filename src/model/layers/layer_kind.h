#pragma once
// A layer is a mixer (attention: positions exchange something) and a network (mlp, experts: each position alone), each
// behind a norm and added to the residual stream. Both are layer kinds, listed in layer.cpp.

#include "graph/mask.h"
#include "model/config.h"
#include "model/layers/state.h"
#include "model/linear.h"
#include "model/param_map.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::model {

// The list of a model's parameters, made while families and layer kinds name theirs.

// What a family's files call a parameter, by our name of it: "embedding", "norm", "head", and of a layer "q", "gate" ...
// ("{}" stands for the layer, "[]" for the expert). Biases have the name of their weight with "bias" for its last word,
// unless "q.bias" is there.
struct TensorNames {
  std::map<std::string, std::string, std::less<>> files;
  std::string layer = "model.layers.{}."; // of layer kinds that the family does not name
  bool transpose = false;                 // matrices are stored (in, out)

  std::string& operator[](const std::string& name) { return files[name]; }
  bool has(std::string_view name) const;
};

// Parameters in the order in which they are numbered.
class ParamTable {
public:
  ParamTable(const ModelConfig& config, TensorNames names)
      : config_(config), names_(std::move(names)) {}

  // What follows belongs to these layers: names get the run's prefix, shapes a leading axis.
  void begin(const LayerRun& run);
  void set_kind(const std::string& kind) { kind_ = kind; }
  void end_layers();

  bool has(std::string_view name) const { return names_.has(name); }
  // file: the key in TensorNames where it is not the name.
  void add(const std::string& name, ParamRole role, Shape element, const std::string& file = "");
  // (out, in) and, with bias, (out).
  void matrix(const std::string& name, int64_t out, int64_t in, bool bias = false,
              const std::string& file = "");
  // A bias where the family names one.
  void norm(const std::string& name, int64_t size);
  // One matrix (out, in) per expert, stacked. "[]" in the file's name stands for the expert; without it all are one tensor.
  void experts(const std::string& name, int64_t count, int64_t out, int64_t in);

  std::vector<ParamSpec> take() { return std::move(specs_); }

private:
  std::string file_of(const std::string& name) const;

  const ModelConfig& config_;
  TensorNames names_;
  std::string prefix_, kind_;
  int64_t layers_ = 0, first_layer_ = 0;
  std::vector<ParamSpec> specs_;
};

// What one layer gets inside the body of a scan. Values belong to the body's graph.
struct LayerInputs {
  const ModelConfig& config;
  const LayerRun& run;
  graph::Value positions = {}; // i32(batch, seq)
  graph::Value inv_freq = {};  // f32(rotary / 2), this layer's; undefined with learned positions
  graph::Value time =
      {}; // f32(batch, size): embedding of the noise level; models with time conditioning
  float rope_amplitude = 1;
  graph::Mask mask = {};       // with this layer's window
  graph::Value on_canvas = {}; // u8(batch, seq, 1); undefined: no position is (ModelConfig::canvas)
  bool empty_average = false;
  int64_t sequence_ranks =
      1; // over which the positions of x are cut; the mask is that of whole rows
  LayerState* state = nullptr;                     // never null while a layer is built
  std::map<std::string, graph::Value> params = {}; // by name in its run: "q", "q.bias", "q.scale"
  std::map<std::string, float> factors = {};       // of adapters' products, by the same names
  std::map<std::string, Partition> partitions = {};
  std::vector<std::string> adapters = {}; // parts whose products are added: "adapter:math/q.lora_a"

  Linear linear(const std::string& name) const;      // with its bias, scale, adapters
  graph::Value param(const std::string& name) const; // undefined when the layer has none
};

// Multiplications and additions count as two.
struct LayerCost {
  double per_token = 0; // flops of a position
  double per_pair = 0;  // of a position and a key it attends to
};

enum class LayerPart { mixer, network };

struct LayerKind {
  const char* name; // in the table: "attention"
  LayerPart part;
  void (*params)(ParamTable& table, const ModelConfig& config);
  // x f32(batch, seq, hidden), normed -> the same, not yet added to the residual stream.
  graph::Value (*build)(const LayerInputs& inputs, graph::Value x);
  LayerCost (*cost)(const ModelConfig& config);
  std::vector<StateSlot> (*state)(const ModelConfig& config); // null: decoding keeps nothing of it
  // build gets the residual stream as it is, and norms it as its parts want, by "mlp_norm" and norms of its own.
  bool norms_input = false;
  // Of mixers: build works where the positions of x are cut over LayerInputs::sequence_ranks.
  bool cuts_positions = false;
};

extern const LayerKind kAttention, kGlobalAttention, kGatedDelta, kMlp, kExperts, kMlpExperts;

// Fails with invalid_argument and the names there are.
const LayerKind& find_layer_kind(LayerPart part, const std::string& name);
// Another kind for the table, from then on for all models; before any model uses it. `kind` outlives all of them. Fails
// with invalid_argument for a name that is there.
void add_layer_kind(const LayerKind& kind);

// A layer of this run: its parameters, its graph, its state.
void add_layer_params(ParamTable& table, const ModelConfig& config, const LayerRun& run);
graph::Value build_layer(const LayerInputs& inputs, graph::Value hidden);
std::vector<StateSlot> layer_slots(const ModelConfig& config, const LayerRun& run);
LayerCost layer_cost(const ModelConfig& config, const LayerRun& run);

// For layer kinds.
graph::Value norm(const LayerInputs& inputs, graph::Value x, const std::string& name);
// The factor of a norm's rows: the weight, or 1 + weight.
graph::Value norm_weight(const ModelConfig& config, graph::Value weight);
graph::Value linear_param(const LayerInputs& inputs, graph::Value x, const std::string& name);
// Which experts a row goes to, and the share of each in the sum.
struct ExpertChoice {
  graph::Value experts; // i32(rows, per_token), the best first
  graph::Value shares;  // f32(rows, per_token)
};
// logits f32(rows, count), bias f32(count) or undefined, positions i32(batch, seq) with batch x seq rows.
ExpertChoice choose_experts(const ExpertConfig& experts, graph::Value logits, graph::Value bias,
                            graph::Value positions);
// The parameters of the experts, and of every row of x (batch, seq, hidden) the sum of what the chosen ones make.
void add_expert_stacks(ParamTable& table, const ModelConfig& config);
graph::Value mix_experts(const LayerInputs& inputs, graph::Value x, const ExpertChoice& choice);
// The network of kind mlp, with the matrices up, down and, gated, gate, or gate_up, which has the rows of both.
graph::Value mlp_block(const LayerInputs& inputs, graph::Value x);

} // namespace dllm::model
