#pragma once
// A model without its numbers: the config that is read from Hugging Face's config.json or GGUF
// metadata, checked, and printed again.

#include "base/json.h"
#include "base/options.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace dllm::ckpt {
class GgufFile;
} // namespace dllm::ckpt

namespace dllm::model {

// Returns the text of a value for an error. Large values of a hostile file are shortened.
std::string shown_value(const Json& value);

// Reads keys of a config and checks their types and ranges. Errors name file, key, found and
// expected.
class ConfigReader {
public:
  // `object` outlives the reader.
  ConfigReader(const Json& object, std::string file);

  const std::string& file() const { return file_; }
  bool has(const char* key) const; // the key exists and is not null
  const Json& object() const { return object_; }

  // Return the value of a key. A missing key fails unless `otherwise` is given.
  int64_t integer(const char* key, int64_t low, int64_t high) const;
  int64_t integer(const char* key, int64_t low, int64_t high, int64_t otherwise) const;
  double number(const char* key, double low, double high, double otherwise) const;
  bool flag(const char* key, bool otherwise) const;
  std::string text(const char* key, const std::string& otherwise) const;
  ConfigReader child(const char* key) const; // fails when it is not an object

  // Fail with unimplemented when the key has a value other than `wanted`. null counts as absent.
  void require_flag(const char* key, bool wanted) const;
  void require_text(const char* key, std::initializer_list<const char*> wanted) const;

  [[noreturn]] void bad(const char* key, const std::string& expected) const;

private:
  const Json& object_;
  std::string file_;
  std::string path_; // "rope_scaling." inside a child
};

// Limits of a model's numbers. Any real model is smaller, and products of the numbers do not
// overflow.
constexpr int64_t kMaxVocab = int64_t{1} << 24;
constexpr int64_t kMaxSize = int64_t{1} << 20; // hidden, intermediate, heads x head_dim
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxPositions = int64_t{1} << 30;

// The keys that a query attends to. automatic: as the model's config has it. Only options use it; a
// parsed config never holds it.
enum class AttentionKind { automatic, causal, bidirectional, block_causal, two_stream };
const char* attention_name(AttentionKind kind); // "auto", "causal", ...
// Fails with invalid_argument and the choices.
AttentionKind attention_from_name(std::string_view name);

enum class NormKind { rms, layer };
enum class PositionKind { rotary, learned, none };

// Rotary positions, in the numbers of config.json ("rope_theta" and "rope_scaling", or
// "rope_parameters").
struct RopeConfig {
  std::string type = "default"; // default linear dynamic yarn llama3 proportional
  double theta = 10000.0;
  // Part of head_dim that rotates. For proportional the angles are counted over all of head_dim.
  double partial = 1.0;
  double factor = 1.0;
  double low_freq_factor = 1.0, high_freq_factor = 4.0; // llama3
  double beta_fast = 32.0, beta_slow = 1.0;             // yarn
  double mscale = 0.0, mscale_all_dim = 0.0;            // yarn; 0: not given
  double attention_factor = 0.0;                        // yarn; 0: from factor
  bool truncate = true;                                 // yarn
  int64_t original_max_positions = 0;                   // llama3, yarn; 0: max_positions
  // q is multiplied by 1 + query_beta ln(1 + floor(position / original_max_positions)) (Llama 4).
  double query_beta = 0;
};

// Experts are many small networks. A router chooses a few of them for every token.
struct ExpertConfig {
  int64_t count = 0; // 0: the model has none
  int64_t per_token = 0;
  int64_t intermediate = 0; // width of one expert
  bool joined = false;      // gate and up of an expert are one matrix, the gate first
  int64_t shared = 0;       // width of the network that every token also passes; 0: none
  // The result of the shared network is multiplied by a sigmoid of one number per token.
  bool shared_gate = false;
  bool sigmoid = false;    // scores: sigmoid of the router's logits; false: softmax
  bool normalize = false;  // the scores of chosen experts are divided by their sum
  double scale = 1;        // factor of the scores after that
  int64_t groups = 1;      // number of groups of neighbouring experts
  int64_t kept_groups = 1; // only experts of this number of best groups may be chosen
  bool bias = false;       // a stored bias per expert changes the choice, not the scores
  // The positions of a block of `block` choose among `capacity` experts, the ones with the highest
  // score of any token of the block (LLaDA2.2). 0: every token chooses by itself.
  int64_t block = 0, capacity = 0;
  // Every token also passes a dense network; each network has its own norm (layer kind
  // mlp_experts).
  bool with_mlp = false;
};

// Layers of kind global_attention have heads of another size. Their values are the keys before the
// key norm.
struct GlobalAttentionConfig {
  int64_t kv_heads = 0, head_dim = 0; // 0: the model has none
};

// Layers of kind gated_delta.
struct GatedDeltaConfig {
  int64_t key_heads = 0, value_heads = 0; // 0: the model has none
  int64_t key_dim = 0, value_dim = 0;     // of a head
  int64_t width = 4;                      // of the convolution

  int64_t key_size() const { return key_heads * key_dim; }
  int64_t value_size() const { return value_heads * value_dim; }
  // Returns the number of channels of q, k and v.
  int64_t conv_size() const { return 2 * key_size() + value_size(); }
};

// How a tower reads a noise level in [0, 1].
//   added     time.out(silu(time.in(e))) is added to every position
//   adaptive  AdaLN-zero (Peebles and Xie 2023), c = time.out(silu(time.mid(silu(time.in(e))))).
//             The input of a block is normed without weights, multiplied by 1 + scale and moved by
//             shift. Its result is multiplied by a gate. All three are products with silu(c).
// e is the level itself, or its sinusoid of TowerConfig::level_size numbers.
enum class LevelKind { none, added, adaptive };

// A matrix into the stream of a tower, applied to vectors of `size` numbers.
struct InputConfig {
  std::string name;
  int64_t size = 0;
  bool bias = true;
};

// What a tower has in addition: a network that reads vectors in place of ids and has no vocabulary
// (family dllm_tower). Its layers are of kind attention, cross_attention or self_cross_attention.
struct TowerConfig {
  bool on = false;
  std::vector<InputConfig> inputs;
  int64_t latents = 0; // learned vectors that the stream begins as; 0: the caller gives it
  int64_t context = 0; // numbers of the vectors that layers with cross attention look at
  // Where the context has hidden states of the base: their place in the list of the embedding and
  // the results of all layers. A negative number counts from its end.
  int64_t context_layer = -1;
  LevelKind level = LevelKind::none;
  int64_t level_size = 1; // of the sinusoid; 1: the level itself
  bool last_norm = true;
};

// How a mask filler computes the vectors of positions with the mask token.
//   small    a transformer over the embeddings of the row; the result is added
//   unet     a U-Net over them: each level halves the positions; the result is added
//   adapter  a transformer over the visible tokens, and a second one with a learned vector of each
//            position that looks at the first one. The result replaces the embedding.
enum class FillerKind { none, small, unet, adapter };
const char* filler_kind_name(FillerKind kind);

// A mask filler: the networks "filler" and "filler_*" of a model. The base changes its input by
// their result at positions that hold the mask token (docs/decisions/0026-fillers.md).
struct FillerConfig {
  FillerKind kind = FillerKind::none;
  double scale = 0;   // s: the result x becomes s tanh(x); 0: it stays
  int64_t levels = 0; // of a U-Net
  // Training draws the result from a normal distribution. Decoding takes its mean.
  bool is_gaussian = false;
  // An adapter reads the given tokens at the front alone, and counts positions from their end.
  bool reads_prompt = false;
  double length = 0; // the mean of an adapter is scaled to this length; 0: it stays

  bool on() const { return kind != FillerKind::none; }
};

struct LayerKind; // layers/layer_kind.h

// Consecutive layers of the same kinds. They share one stack of parameters and one scan.
struct LayerRun {
  int64_t first = 0, count = 0;
  const LayerKind* mixer = nullptr;   // attention ...
  const LayerKind* network = nullptr; // mlp, experts
  // Returns the prefix of the names of its stacks: "layers.", in later runs "layers@<first>.".
  std::string prefix() const;
};

// A head: a matrix (rows, hidden) that is applied to the hidden states after the last norm.
struct HeadConfig {
  std::string name;
  int64_t rows = 0;
  std::string weight; // its parameter: "head", or "embedding" when it is tied
  double softcap = 0; // of the results; 0: none
  bool bias = false;  // the parameter "<weight>.bias"
  // Name of its tensors: "<file>.weight". An empty name means "<weight>.weight".
  std::string file = {};
  bool zero = false; // first values are 0
  // Of towers: the head reads vectors of `size` numbers in place of hidden states, 0: hidden
  // states; `norm`: a layer norm "<weight>.norm" comes before the matrix.
  int64_t size = 0;
  bool norm = false;
};

struct ModelConfig {
  std::string family;     // name in the family table: "llama"
  std::string model_type; // as in the file: "a2d-qwen3"
  int64_t vocab_size = 0; // rows of the embedding and of the head
  int64_t hidden_size = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t intermediate_size = 0;
  int64_t max_positions = 0;
  double norm_eps = 1e-6;
  double init_std = 0.02;
  NormKind norm = NormKind::rms;
  PositionKind positions = PositionKind::rotary;
  RopeConfig rope;
  std::string activation = "silu"; // silu gelu gelu_tanh relu
  bool gated_mlp = true;
  bool tie_embeddings = false;
  bool qkv_bias = false;
  bool out_bias = false; // of the attention's output projection
  bool mlp_bias = false;
  bool qk_norm = false;
  // The result of attention is multiplied by a sigmoid. Its logits are rows of the q matrix, after
  // the rows of each head's q.
  bool attention_gate = false;
  double embedding_scale = 1;  // factor of looked-up rows
  bool centered_norms = false; // norms multiply by 1 + weight
  // The result of a block is normed before it is added to the residual stream.
  bool post_norms = false;
  double query_scalar = 0;      // scores are divided by its square root; 0: head_dim
  double attention_softcap = 0; // of scores; 0: none
  double logit_softcap = 0;     // of logits; 0: none
  int64_t window = 0;           // tokens that a sliding layer sees, itself included
  // The window reaches as far to the right as to the left, under any kind of attention.
  bool window_both_sides = false;
  std::vector<bool> sliding; // by layer; empty: no layer slides
  double sliding_theta = 0;  // theta of the sliding layers; 0: as in `rope`
  // Settings of encoders.
  bool embedding_norm = false; // the input of the first layer is normed
  // Rows of a token-type table, whose first row is added to every position; 0: none.
  int64_t token_types = 0;
  // The sum after a block is normed, not the block's input. The model then has no last norm.
  bool norm_after = false;
  bool first_norm = true; // the first layer's mixer has a norm
  // Heads read norm(activation(dense(hidden))), with the hidden states after the last norm.
  bool prediction_layer = false;
  bool prediction_bias = false;      // dense has a bias
  std::string prediction_activation; // empty: `activation`
  bool norm_bias = false;            // layer norms have a bias, in families where it is optional
  bool head_bias = false;            // the tied head has a bias
  ExpertConfig experts;
  GatedDeltaConfig gated_delta;
  GlobalAttentionConfig global_attention;
  bool value_norm = false; // v of every head is normed without a weight
  // The model reads a prefix causally, then a canvas whose positions see each other
  // (ForwardInputs::canvas_start). Each layer is followed by a factor, one for the prefix and one
  // for the canvas. The canvas is conditioned on earlier predictions of the canvas.
  bool canvas = false;
  // The layer kinds of each layer.
  std::vector<std::string> mixers; // empty: attention in every layer
  // true: the network of the layer is experts, else mlp. An empty list means no experts.
  std::vector<bool> sparse;
  // Heads other than "lm". Each has a parameter "heads.<name>" and a tensor HeadConfig::file.
  std::vector<HeadConfig> other_heads;
  TowerConfig tower;              // of a tower
  bool time_conditioning = false; // adaptive norms fed by a time embedding
  int64_t time_steps = 0;         // the time input is t / time_steps
  // Settings that do not come from the family. config.json keeps them under "dllm".
  AttentionKind attention = AttentionKind::causal;
  int shift = 0;              // 1: the hidden state of position i predicts token i + 1
  int64_t mask_token_id = -1; // -1: none
  // A position that is predicted to be this token is removed (LLaDA2.2); -1: none.
  int64_t delete_token_id = -1;
  // A position that is predicted to be this token gets a mask before it; -1: none.
  int64_t split_token_id = -1;
  int64_t block_length = 0; // for block_causal; 0: none
  // Name of the objective that trained the weights last; empty: not known. Decoding and scores
  // follow it by default.
  std::string objective;
  // The noise schedule of a model over vectors, as a JSON object {"name", options}; "": not known.
  std::string schedule;
  // Weights of a next-token model as published: it is causal, without a shift and a mask token.
  bool next_token = false;
  FillerConfig filler;
  // Type of K and V that are kept between decoding steps: f32, bf16 or i8.
  DType cache_dtype = DType::f32;
  // The networks other than the base that a file holds, as a JSON object of configs by name: on the
  // way from a file to a model, and back. A model has them as parts; "" there.
  std::string parts;
  // JSON object of the file. Saving writes its unread keys again.
  std::string source;
  // Rows may be longer than max_positions, because the file names only the length of training.
  bool allows_longer_rows = false;

  int64_t query_size() const { return heads * head_dim; }
  int64_t kv_size() const { return kv_heads * head_dim; }
  // Returns the most positions of a row in forward() or training. Rope of type dynamic has no
  // limit.
  int64_t position_limit() const {
    const bool stretches = positions == PositionKind::rotary && rope.type == "dynamic";
    return stretches || allows_longer_rows ? INT32_MAX : max_positions;
  }
};

// Parses a config. `file` is named in errors. Fails with data_loss for text that is not JSON. Fails
// with invalid_argument for a number that no model has (key, found, expected). Fails with
// unimplemented for an unknown family or feature.
ModelConfig config_from_json(const Json& object, const std::string& file);
ModelConfig config_from_text(std::string_view text, const std::string& file);
// Reads the architectures of the families' gguf_names.
ModelConfig config_from_gguf(const ckpt::GgufFile& file);
// Returns the family's config.json and the key "dllm".
Json config_to_json(const ModelConfig& config);
// Checks every number against the others. `file` is named in errors.
void check_config(const ModelConfig& config, const std::string& file);

// Replaces the model's own attention and shift by options of kind "model" that are set. Loading
// handles mask_token.
void apply_model_options(ModelConfig& config, const Options& options);

// Returns the runs of layers in order, at least one. `cuts` lists layers after which a run ends
// even if the next layer is of the same kinds.
std::vector<LayerRun> layer_runs(const ModelConfig& config, const std::set<int64_t>& cuts = {});
// Returns the networks of ModelConfig::parts, in the order of their names.
std::vector<std::pair<std::string, ModelConfig>> part_configs(const ModelConfig& config);
// Adds networks to ModelConfig::parts that it lacks.
void add_parts(ModelConfig& config, const std::map<std::string, Json>& parts);
// The first head is "lm". A tower has only the heads that it names.
std::vector<HeadConfig> model_heads(const ModelConfig& config);

std::vector<std::string> family_names(); // sorted

// Rotary frequencies, with the scalings of config.json.

struct RopeTable {
  Tensor inv_freq;     // f32(rotary / 2)
  float amplitude = 1; // of cos and sin
};

// Returns the frequencies. `seq` is the length of the rows, which "dynamic" depends on (Hugging
// Face's NTK rule uses the longest position).
RopeTable rope_table(const ModelConfig& config, int64_t seq);
// Returns the dimensions of a head that rotate.
int64_t rotary_size(const ModelConfig& config);
// Returns the config for layers of kind global_attention. It is unchanged when the model has none.
ModelConfig with_global_heads(const ModelConfig& config);

// Reads "rope_theta", "rope_scaling", "partial_rotary_factor", or "rope_parameters" of transformers
// 5.
RopeConfig parse_rope(const ConfigReader& reader);
void print_rope(const ModelConfig& config, Json& object);

} // namespace dllm::model
