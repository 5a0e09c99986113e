#pragma once
// What a model is, apart from its numbers: read from Hugging Face's config.json or GGUF metadata,
// checked, printed back.

#include "base/json.h"
#include "base/options.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

#include <cstdint>
#include <initializer_list>
#include <set>
#include <string>
#include <vector>

namespace dllm::ckpt {
class GgufFile;
} // namespace dllm::ckpt

namespace dllm::model {

// What an error shows of a value: those of a hostile file may be large.
std::string shown_value(const Json& value);

// Typed, checked access to the keys of a config: errors name file, key, found and expected.
class ConfigReader {
public:
  // `object` outlives the reader.
  ConfigReader(const Json& object, std::string file);

  const std::string& file() const { return file_; }
  bool has(const char* key) const; // there and not null
  const Json& object() const { return object_; }

  // Without a fallback a missing key fails.
  int64_t integer(const char* key, int64_t low, int64_t high) const;
  int64_t integer(const char* key, int64_t low, int64_t high, int64_t otherwise) const;
  double number(const char* key, double low, double high, double otherwise) const;
  bool flag(const char* key, bool otherwise) const;
  std::string text(const char* key, const std::string& otherwise) const;
  ConfigReader child(const char* key) const; // an object; fails when it is none

  // Fails with unimplemented when the key is there and is none of these (null counts as absent).
  void require_flag(const char* key, bool wanted) const;
  void require_text(const char* key, std::initializer_list<const char*> wanted) const;

  [[noreturn]] void bad(const char* key, const std::string& expected) const;

private:
  const Json& object_;
  std::string file_;
  std::string path_; // "rope_scaling." inside a child
};

// Numbers a model may have: large enough for any real one, small enough that products do not
// overflow.
constexpr int64_t kMaxVocab = int64_t{1} << 24;
constexpr int64_t kMaxSize = int64_t{1} << 20; // hidden, intermediate, heads x head_dim
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxPositions = int64_t{1} << 30;

// What a query attends to. automatic: the model's own (options only; a config never holds it after
// parsing).
enum class AttentionKind { automatic, causal, bidirectional, block_causal, two_stream };
const char* attention_name(AttentionKind kind); // "auto", "causal", ...
AttentionKind
attention_from_name(std::string_view name); // fails with invalid_argument and the choices

enum class NormKind { rms, layer };
enum class PositionKind { rotary, learned };

// Rotary positions; numbers as in config.json ("rope_theta" and "rope_scaling", or
// "rope_parameters").
struct RopeConfig {
  std::string type = "default"; // default linear dynamic yarn llama3 proportional
  double theta = 10000.0;
  double partial =
      1.0; // part of head_dim that turns; proportional: by angles counted over all of it
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

// Experts: many small networks of which a router picks a few for every token.
struct ExpertConfig {
  int64_t count = 0; // 0: the model has none
  int64_t per_token = 0;
  int64_t intermediate = 0; // width of one expert
  bool joined = false;      // its gate and up are one matrix, the gate first
  int64_t shared = 0;       // width of the network that every token passes as well; 0: none
  bool shared_gate = false; // ... times the sigmoid of a number that each token has of it
  bool sigmoid = false;     // scores are sigmoids of the router's logits, else their softmax
  bool normalize = false;   // the scores of the chosen are divided by their sum
  double scale = 1;         // and multiplied by this
  int64_t groups = 1;       // neighbouring experts form groups ...
  int64_t kept_groups = 1;  // ... and only those of the best groups may be chosen
  bool bias = false;        // a stored bias per expert enters the choice, not the scores
  // Positions in blocks of `block` may choose among `capacity` experts alone, those that any of the block's tokens
  // scores highest (LLaDA2.2); 0: every token chooses by itself.
  int64_t block = 0, capacity = 0;
  bool with_mlp =
      false; // every token passes a dense network too, each behind its own norm (layer kind mlp_experts)
};

// Layers of kind global_attention: heads of another size, and values that are the keys before their norm.
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
  int64_t conv_size() const { return 2 * key_size() + value_size(); } // channels: q, k, v
};

struct LayerKind; // layers/layer_kind.h

// Neighbouring layers of the same kinds: one stack of parameters and one scan.
struct LayerRun {
  int64_t first = 0, count = 0;
  const LayerKind* mixer = nullptr;   // attention ...
  const LayerKind* network = nullptr; // mlp, experts
  std::string prefix() const; // of the names of its stacks: "layers.", later runs "layers@<first>."
};

// A matrix (rows, hidden) over the hidden states after the last norm.
struct HeadConfig {
  std::string name;
  int64_t rows = 0;
  std::string weight; // its parameter: "head"; "embedding" where it is tied
  double softcap = 0; // of its results; 0: none
  bool bias = false;  // the parameter "<weight>.bias"
  std::string file;   // of its tensors, "<file>.weight"; empty: "<weight>.weight"
};

struct ModelConfig {
  std::string family;     // name in the family table: "llama"
  std::string model_type; // as the file says: "a2d-qwen3"
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
  bool attention_gate =
      false; // what attention gives is multiplied by a sigmoid, of rows behind each head's q
  double embedding_scale = 1;     // of the rows that are looked up
  bool centered_norms = false;    // norms multiply by 1 + weight
  bool post_norms = false;        // what a block adds to the residual stream is normed before
  double query_scalar = 0;        // scores are divided by its square root; 0: head_dim
  double attention_softcap = 0;   // of scores, 0: none
  double logit_softcap = 0;       // of logits, 0: none
  int64_t window = 0;             // tokens that a sliding layer sees, its own included
  bool window_both_sides = false; // it sees as many behind it; no kind of attention turns that off
  std::vector<bool> sliding;      // by layer; empty: no layer slides
  double sliding_theta = 0;       // rope of the sliding layers; 0: `rope`
  // Of encoders.
  bool embedding_norm = false; // what goes into the first layer is normed
  int64_t token_types = 0; // rows of a table of which the first is added to every position; 0: none
  bool norm_after = false; // a block's sum is normed, not what it reads; no last norm then
  bool first_norm = true;  // the first layer's mixer has a norm
  bool prediction_layer =
      false; // heads read norm(activation(dense(hidden))) of the last norm's hidden
  bool prediction_bias = false;      // of dense
  std::string prediction_activation; // empty: `activation`
  bool norm_bias = false;            // of layer norms of families whose norms may lack it
  bool head_bias = false;            // of the tied head
  ExpertConfig experts;
  GatedDeltaConfig gated_delta;
  GlobalAttentionConfig global_attention;
  bool value_norm = false; // v of every head is normed, without a weight
  // The model reads a prefix causally and behind it a canvas whose positions see each other (ForwardInputs::canvas_start):
  // layers are followed by a factor for each of the two, and the canvas is conditioned on earlier predictions of it.
  bool canvas = false;
  // The pattern of layer kinds, by layer.
  std::vector<std::string> mixers; // empty: attention in every layer
  std::vector<bool> sparse;        // network is experts, else mlp; empty: no layer has experts
  // Heads other than "lm"; each a parameter "heads.<name>" and a tensor HeadConfig::file.
  std::vector<HeadConfig> other_heads;
  bool time_conditioning = false; // adaptive norms fed by a time embedding
  int64_t time_steps = 0;         // the model is fed t / time_steps
  // Settings other than the family, kept under "dllm" in config.json.
  AttentionKind attention = AttentionKind::causal;
  int shift = 0;                  // 1: the hidden state before a token predicts it
  int64_t mask_token_id = -1;     // -1: none
  int64_t delete_token_id = -1;   // a position predicted to be it is removed (LLaDA2.2); -1: none
  int64_t split_token_id = -1;    // ... gets a mask in front of it; -1: none
  int64_t block_length = 0;       // of block_causal; 0: none
  DType cache_dtype = DType::f32; // of K and V kept between decoding steps: f32, bf16 or i8
  std::string source;             // the file's JSON object: keys we do not read are kept for saving
  // Rows may be longer than max_positions: what the file names is the length of training alone.
  bool allows_longer_rows = false;

  int64_t query_size() const { return heads * head_dim; }
  int64_t kv_size() const { return kv_heads * head_dim; }
  // Positions a row of forward or training may have; rope of type dynamic stretches to any.
  int64_t position_limit() const {
    const bool stretches = positions == PositionKind::rotary && rope.type == "dynamic";
    return stretches || allows_longer_rows ? INT32_MAX : max_positions;
  }
};

// Fails with data_loss (not JSON), invalid_argument (a number that makes no model: key, found,
// expected), or unimplemented for a family or feature that is not there yet. file: for error texts.
ModelConfig config_from_json(const Json& object, const std::string& file);
ModelConfig config_from_text(std::string_view text, const std::string& file);
// The architectures of the families' gguf_names.
ModelConfig config_from_gguf(const ckpt::GgufFile& file);
// The words of the family's config.json, plus "dllm".
Json config_to_json(const ModelConfig& config);
// Checks every number against the others.
void check_config(const ModelConfig& config, const std::string& file);

// Overwrites the model's own attention and shift by options of kind "model" that are set.
// mask_token is handled by load.
void apply_model_options(ModelConfig& config, const Options& options);

// In order, at least one. cuts: layers at which a run ends although the next layer is of its kind.
std::vector<LayerRun> layer_runs(const ModelConfig& config, const std::set<int64_t>& cuts = {});
std::vector<HeadConfig> model_heads(const ModelConfig& config); // "lm" first

std::vector<std::string> family_names(); // sorted

// Rotary frequencies, with the scalings of config.json.

struct RopeTable {
  Tensor inv_freq;     // f32(rotary / 2)
  float amplitude = 1; // of cos and sin
};

// seq: length of the rows, for "dynamic" (Hugging Face's NTK rule looks at the longest position).
RopeTable rope_table(const ModelConfig& config, int64_t seq);
int64_t rotary_size(const ModelConfig& config); // dims of a head that turn
// The config as layers of kind global_attention read it; the same where there are none.
ModelConfig with_global_heads(const ModelConfig& config);

// "rope_theta", "rope_scaling", "partial_rotary_factor", or the 5.x framework's "rope_parameters".
RopeConfig parse_rope(const ConfigReader& reader);
void print_rope(const ModelConfig& config, Json& object);

} // namespace dllm::model
