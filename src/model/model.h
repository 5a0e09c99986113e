#pragma once
// A model: a config and parameters on an engine. Shared by trainer, decoder and host.

#include "base/files.h"
#include "base/options.h"
#include "base/task.h"
#include "graph/engine.h"
#include "model/config.h"
#include "model/param_store.h"
#include "model/part.h"
#include "model/selection.h"
#include "runtime/programs.h"
#include "tensor/batch.h"
#include "tensor/box.h"
#include "text/token_facts.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace dllm::model {

// The origin of a model's settings, in addition to its weights.
struct Origin {
  // Set by options of kind "model": training leaves these as they are.
  bool attention_chosen = false, shift_chosen = false, mask_chosen = false;
  // Weights of a next-token model: causal, and its file says nothing of a shift or a mask token.
  bool next_token = false;
};

// One call at a time but for const members. Keeps its engine alive.
class Model {
public:
  using SideFiles = std::vector<std::pair<std::string, Bytes>>;

  Model(std::shared_ptr<graph::Engine> engine, ModelConfig config);
  ~Model();

  graph::Engine& engine() const { return *engine_; }
  const std::shared_ptr<graph::Engine>& engine_ref() const { return engine_; }
  const ModelConfig& config() const { return parts_.base().config; } // of the base
  ParamStore& params() { return params_; }                           // of all parts
  const ParamStore& params() const { return params_; }
  int64_t version() const { return params_.version(); }

  // The parts; names and list may be read from any thread.
  const PartTable& parts() const { return parts_; }
  // The parts that a pass reads: the base, its adapters and `others`. Fails with not_found.
  PartList reading(const std::vector<std::string>& others = {}) const {
    return parts_.reading(others);
  }
  // A part without parameters yet; fails as PartTable::add. Then `fill` adds the parameters; where
  // it fails the model is what it was. Version + 1.
  void add_part(Part part, const std::function<void()>& fill);
  // The base of another model as a part that nothing trains. The arrays are shared with that model,
  // and stay as they are when it is trained. Fails with invalid_argument for a model on another
  // engine. Version + 1.
  void add_network(const std::string& name, const Model& other);
  void drop_part(const std::string& name); // and its parameters; version + 1
  // The place whose numbers the part has now.
  void set_origin_of(const std::string& part, PartOrigin origin);
  // Whether that place is known and holds the numbers of the part.
  bool has_origin(const std::string& part) const;

  // tokenizer.json, generation_config.json ...: carried from load to save. A copy, from any thread.
  SideFiles side_files() const;
  void set_side_file(const std::string& name, Bytes content); // replaces
  // What these files and config.json say of the model's tokens; read when it is asked for, then kept. From any thread.
  std::shared_ptr<const text::TokenFacts> token_facts() const;
  // generation_config.json; an empty object where there is none.
  Json generation() const;
  // config() for threads that may meet a change of the mask token.
  ModelConfig config_now() const;

  // Returns the mask token; a model without one gets one: an unused row past the
  // tokenizer's last id, else a new row; embedding (and head) = mean of the rows; tokenizer.json and
  // tokenizer_config.json get "<|mask|>". Version + 1 when something changed.
  int64_t ensure_mask_token();
  void set_mask_token(int64_t id); // fails with out_of_range

  const Origin& origin() const { return origin_; }
  void set_origin(const Origin& origin) { origin_ = origin; }
  // What a token sees and which state predicts it, from here on: in forward(), in decoding and in
  // every save. block_length: 0 keeps the model's own. Version + 1 when something changed.
  void set_attention(AttentionKind attention, int shift, int64_t block_length);

  int64_t i64(const std::string& key) const; // vocab hidden layers max_length mask_id params bytes
  // family, attention, shift, runs, storage forms, bytes, end_tokens, generation
  Json describe() const;

  // What a trainer without option freeze trains: the adapters where the model has some, else all.
  Selection default_selection() const;
  // The selection of a trainer that lives as long as it. From any thread.
  void add_selection(const std::shared_ptr<const Selection>& selection);
  // Accepts the parameters that a living trainer changes; without a trainer, those of the default
  // selection. From any thread.
  ParamStore::Test trained() const;

  // The programs of forward(), by shapes and options.
  using ForwardCache = runtime::ProgramCache<std::string>;
  ForwardCache& forward_cache() { return forward_cache_; }
  // After a change of the list of parameters. Version + 1.
  void forget_programs();

  // Config, words and parameters, to be brought back when a call that changes them fails.
  struct Backup {
    ModelConfig config;
    SideFiles side_files;
    ParamStore::Backup params;
  };
  Backup backup() const { return {config_now(), side_files(), params_.backup()}; }
  void restore(Backup before);

private:
  std::shared_ptr<graph::Engine> engine_;
  PartTable parts_;
  ParamStore params_;
  // Guards side_files_, token_facts_, selections_, and the config where it is written.
  mutable std::mutex words_;
  SideFiles side_files_;
  mutable std::shared_ptr<const text::TokenFacts> token_facts_; // null: not read yet
  Origin origin_;
  std::vector<std::weak_ptr<const Selection>> selections_; // of trainers
  ForwardCache forward_cache_;
};

Origin chosen_by(const Options& options); // of kind "model"
const Schema& model_schema();             // "model": dtype attention shift mask_token seed
const Schema& save_schema();              // "save": dtype max_shard_bytes overwrite
const Schema& forward_schema(); // "forward": attention shift block_length outputs empty_average

// A Hugging Face folder (config.json, safetensors or PyTorch files, whole or sharded), one .gguf file, or the same in
// memory; a checkpoint folder of dllm is found by its model/ folder. Progress in bytes. Fails with
// not_found, data_loss (file, tensor, expected, found), unimplemented (family, tensor type,
// a pickle of more than tensors), resource_exhausted, cancelled.
std::shared_ptr<Model> load_model(std::shared_ptr<graph::Engine> engine, const Source& source,
                                  const Options& options, Task* task = nullptr);
std::shared_ptr<Model> load_model(std::shared_ptr<graph::Engine> engine, const std::string& path,
                                  const Options& options, Task* task = nullptr);
// Random weights: normal(0, init_std), norms 1, biases 0, drawn by (seed, logical name, element):
// the same on any machine.
std::shared_ptr<Model> new_model(std::shared_ptr<graph::Engine> engine, const Json& config,
                                 const Options& options, Task* task = nullptr);
// A model without numbers, for plans: shapes and types as load_model would keep them (auto: f32).
// Programs can be built from it and compiled; what needs the numbers fails with
// failed_precondition. Nothing is uploaded.
std::shared_ptr<Model> sketch_model(std::shared_ptr<graph::Engine> engine, ModelConfig config,
                                    const WeightFormat& format);
// A copy with its own parameters on the same engine. instead(index) returns the numbers of a physical
// parameter of type f32 where they are not the model's own; undefined: they are.
std::shared_ptr<Model> clone_model(const Model& model,
                                   const std::function<Tensor(size_t index)>& instead = nullptr);
// A Hugging Face folder that appears whole or not at all.
void save_model(const Model& model, const std::string& folder, const Options& options,
                Task* task = nullptr);

// Batch: ids i32(batch, seq), or embeddings f32(batch, seq, hidden); optional positions i32,
// segments i32, keys u8 (1: may be seen), mask u8(batch or 1, queries, keys), timesteps f32(batch).
// (`keep` marks given tokens and changes nothing here.) Returns the arrays of option outputs:
// logits f32(batch, seq, vocab), hidden (after the last norm), layers f32(layers + 1, batch, seq,
// hidden): the embedding and what every layer leaves, before the last norm.
Batch forward(Model& model, const Batch& batch, const Options& options, Task* task = nullptr);
Batch forward(Model& model, const Batch& batch, Task* task = nullptr);

// The config of a source without its weights.
ModelConfig read_config(const Source& source);

// LoRA adapters of a model: two small matrices for each chosen one. The base is frozen, A and B are trained.

struct AdapterOptions {
  std::vector<std::string> targets; // patterns of logical names, '*' stands for any text
  int64_t rank = 8;
  double alpha = 16; // the product is multiplied by alpha / rank
  uint64_t seed = 0;
  std::string name = "default"; // the part is "adapter:<name>"
};

// "model.layers.0.self_attn.q_proj.weight" gets "model.layers.0.self_attn.q_proj.lora_A.weight" (rank, in), uniform in
// +-1/sqrt(in), and lora_B.weight (out, rank), zero: the model computes what it did. They are a part of the model. A pass
// that reads several adapters adds all their products. Version + 1. Fails with not_found when a pattern matches nothing,
// with unimplemented for embeddings, the head and part of a stack, with already_exists when the model has an adapter of
// that name. Where it fails later, or is cancelled, the model is what it was.
// read: the numbers of a matrix by its logical name, of `whole` shape, the part in `box`; an undefined tensor, or no
// function: the first values. It may be called on each process of an engine for the parts of that process.
using ReadAdapter =
    std::function<Tensor(const std::string& name, const Shape& whole, const Box& box)>;
void add_adapters(Model& model, const AdapterOptions& options, const ReadAdapter& read = nullptr,
                  const Task* task = nullptr);
// The same with the numbers of a folder as PEFT saves it (adapter_config.json, adapter_model.safetensors): LoRA, plain or
// rank-stabilised. Fails as add_adapters, with not_found for a matrix that the model lacks, with unimplemented for other
// adapters and settings. The task is checked inside of every tensor; its progress counts bytes of the file.
void load_adapters(Model& model, const std::string& folder, Task* task = nullptr);
// W += alpha / rank B A of every adapter, in the format of W; the adapters are removed. Version + 1.
void merge_adapters(Model& model);

} // namespace dllm::model
