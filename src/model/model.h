#pragma once
// A model: a config and parameters on an engine. Trainers, decoders and hosts share it.

#include "base/files.h"
#include "base/options.h"
#include "base/task.h"
#include "graph/engine.h"
#include "model/config.h"
#include "model/params/param_store.h"
#include "model/params/part.h"
#include "model/params/selection.h"
#include "runtime/programs.h"
#include "tensor/batch.h"
#include "tensor/box.h"
#include "text/token_facts.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dllm::model {

// Settings of a model that options of kind "model" chose. Training does not change them.
struct Origin {
  bool attention_chosen = false, shift_chosen = false, mask_chosen = false;
};

// One call at a time, except for const members. The model keeps its engine alive.
class Model {
public:
  using SideFiles = std::vector<std::pair<std::string, Bytes>>;

  // The networks in ModelConfig::parts become parts without parameters.
  Model(std::shared_ptr<graph::Engine> engine, ModelConfig config);
  ~Model();

  graph::Engine& engine() const { return *engine_; }
  const std::shared_ptr<graph::Engine>& engine_ref() const { return engine_; }
  // Returns the config of the base.
  const ModelConfig& config() const { return parts_.base().config; }
  ParamStore& params() { return params_; } // of all parts
  const ParamStore& params() const { return params_; }
  int64_t version() const { return params_.version(); }

  // The parts. Any thread may read names and list.
  const PartTable& parts() const { return parts_; }
  // Returns the parts that a pass reads: the base, its adapters and `others`. Fails with not_found.
  PartList reading(const std::vector<std::string>& others = {}) const {
    return parts_.reading(others);
  }
  // Adds a part without parameters, then calls `fill`, which adds the parameters. Fails as
  // PartTable::add. When `fill` fails, the model is unchanged. Version + 1.
  void add_part(Part part, const std::function<void()>& fill);
  // Adds the base of another model as a part that no trainer trains. The arrays are shared with
  // that model; training the other model does not change them. Fails with invalid_argument for a
  // model on another engine. Version + 1.
  // Fails with failed_precondition when the other model has adapters.
  void add_network(const std::string& name, const Model& other);
  // Removes such a network. Fails with not_found and the names of all networks.
  void remove_network(const std::string& name);
  // Removes the part and its parameters. Version + 1.
  void drop_part(const std::string& name);
  // Sets the scale of an adapter's products. Version + 1.
  void scale_part(const std::string& name, float scale,
                  const std::function<float(const ParamSpec&)>& factor);
  // Sets the place that holds the current numbers of the part.
  void set_origin_of(const std::string& part, PartOrigin origin);
  // Returns that place, if it is known and still holds the numbers of the part. Any thread.
  std::optional<PartOrigin> origin_of(const std::string& part) const;

  // Returns a copy of tokenizer.json, generation_config.json and others, which are kept from load
  // to save. Any thread may call it.
  SideFiles side_files() const;
  void set_side_file(const std::string& name, Bytes content); // adds or replaces a file
  // Returns the facts about the model's tokens in these files and config.json. The first call reads
  // them. Any thread may call it.
  std::shared_ptr<const text::TokenFacts> token_facts() const;
  // Returns generation_config.json, or an empty object when there is none.
  Json generation() const;
  // Returns config() for threads that may run while the mask token changes.
  ModelConfig config_now() const;

  // Returns the mask token, and adds one to a model without one. The new token is an unused row
  // after the tokenizer's last id, else a new row. Its embedding, and its row of the head, is the
  // mean of all rows. tokenizer.json and tokenizer_config.json get "<|mask|>". Version + 1 when
  // something changed.
  int64_t ensure_mask_token();
  void set_mask_token(int64_t id); // fails with out_of_range

  const Origin& origin() const { return origin_; }
  void set_origin(const Origin& origin) { origin_ = origin; }
  // Sets which tokens a token sees and which hidden state predicts it. forward(), decoding and
  // every save then use this. block_length 0 keeps the model's own. Version + 1 when something
  // changed.
  void set_attention(AttentionKind attention, int shift, int64_t block_length);
  // Sets the mask filler of the base. Its networks are added before it is used. Version + 1.
  void set_filler(const FillerConfig& filler);
  // Sets the name of the objective that trains the weights, and ModelConfig::schedule. They are not
  // plain next-token weights any more.
  void set_objective(const std::string& name, const std::string& schedule = "");

  // Keys: vocab hidden layers max_length mask_id params bytes.
  int64_t i64(const std::string& key) const;
  // Returns family, attention, shift, runs, storage forms, bytes, end_tokens, generation and the
  // objective that trained the model.
  Json describe() const;

  // Returns the selection of a trainer of these parts. It leaves the tensors of the patterns
  // `frozen` alone. A base that has adapters stands for its adapters. A base, and the part
  // "filler", stand for all networks of its mask filler.
  Selection selection_of(const std::vector<std::string>& parts,
                         std::vector<std::string> frozen = {}) const;
  // Adds the selection of a trainer. It counts while the trainer lives. Any thread may call it.
  void add_selection(const std::shared_ptr<const Selection>& selection);
  // Returns a test for the parameters that a living trainer changes. Without a trainer it accepts
  // what a new trainer of these parts would train. Any thread may call it.
  ParamStore::Test trained(const std::vector<std::string>& parts = {kBasePart}) const;

  // The programs of forward(), keyed by shapes and options.
  using ForwardCache = runtime::ProgramCache<std::string>;
  ForwardCache& forward_cache() { return forward_cache_; }
  // Call it after a change of parts other than the base. Version + 1.
  void forget_programs();

  // The config, side files and parameters, which restore() brings back when a call fails halfway.
  // Parts that were added meanwhile are removed.
  struct Backup {
    ModelConfig config;
    SideFiles side_files;
    ParamStore::Backup params;
    std::vector<std::string> parts;
  };
  Backup backup() const { return {config_now(), side_files(), params_.backup(), parts_.names()}; }
  void restore(Backup before);

private:
  std::shared_ptr<graph::Engine> engine_;
  PartTable parts_;
  ParamStore params_;
  // Guards side_files_, token_facts_, selections_, and writes of the config.
  mutable std::mutex words_;
  SideFiles side_files_;
  // null: not read yet
  mutable std::shared_ptr<const text::TokenFacts> token_facts_;
  Origin origin_;
  std::vector<std::weak_ptr<const Selection>> selections_; // selections of trainers
  ForwardCache forward_cache_;
};

Origin chosen_by(const Options& options); // options of kind "model"
// The schema "model": dtype attention shift mask_token seed.
const Schema& model_schema();
// The schema "save": dtype max_shard_bytes overwrite.
const Schema& save_schema();
// The schema "forward": attention shift block_length outputs empty_average.
const Schema& forward_schema();

// Loads a Hugging Face folder (config.json, safetensors or PyTorch files, whole or sharded), one
// .gguf file, or the same files in memory. In a checkpoint folder of dllm it loads the folder
// model/. Progress counts bytes. Fails with not_found, data_loss (file, tensor, expected, found),
// unimplemented (family, tensor type, a pickle of more than tensors), resource_exhausted,
// cancelled.
std::shared_ptr<Model> load_model(std::shared_ptr<graph::Engine> engine, const Source& source,
                                  const Options& options, Task* task = nullptr);
std::shared_ptr<Model> load_model(std::shared_ptr<graph::Engine> engine, const std::string& path,
                                  const Options& options, Task* task = nullptr);
// Makes a model with random weights: normal(0, init_std), norms 1, biases 0. Weights depend on
// (seed, logical name, element) alone, so they are equal on any machine.
std::shared_ptr<Model> new_model(std::shared_ptr<graph::Engine> engine, const Json& config,
                                 const Options& options, Task* task = nullptr);
// Adds a network with random weights, which depend on (seed, name, logical name, element) alone.
// Fails as PartTable::add, and as new_model for the config. Version + 1.
void add_new_network(Model& model, const std::string& name, const Json& config, uint64_t seed,
                     Task* task = nullptr);
// Makes a model without numbers, for plans. Shapes and types are as load_model would keep them
// (auto: f32). Programs can be built from it and compiled; a use of the numbers fails with
// failed_precondition. Nothing is uploaded. form_of returns the format of a stack.
std::shared_ptr<Model>
sketch_model(std::shared_ptr<graph::Engine> engine, ModelConfig config,
             const std::function<const WeightFormat&(const ParamSpec&)>& form_of);
std::shared_ptr<Model> sketch_model(std::shared_ptr<graph::Engine> engine, ModelConfig config,
                                    const WeightFormat& format);
// Copies a model with its parameters on the same engine. instead(index) returns other numbers for a
// physical parameter of type f32; an undefined tensor keeps the model's numbers.
std::shared_ptr<Model> clone_model(const Model& model,
                                   const std::function<Tensor(size_t index)>& instead = nullptr);
// Makes a model with the same parts, which shares the arrays of `model`. An adapter of one model
// does not become an adapter of the other. A trainer of one model does not change the numbers of
// the other.
std::shared_ptr<Model> share_model(const Model& model);
// Writes a Hugging Face folder of the base and its towers that appears complete or not at all.
// Other networks are left out, and a warning names them. It is not an error, because a model that
// was trained with another network is often used without it.
void save_model(const Model& model, const std::string& folder, const Options& options,
                Task* task = nullptr);

// Runs the model on a batch. The batch holds ids i32(batch, seq), or embeddings f32(batch, seq,
// hidden). Optional arrays are positions i32, segments i32, keys u8 (1: may be seen), mask u8(batch
// or 1, queries, keys) and timesteps f32(batch). `keep`, which marks given tokens, changes nothing
// here.
// Returns the arrays of option outputs: logits f32(batch, seq, vocab), hidden (after the last
// norm), and layers f32(layers + 1, batch, seq, hidden). The last one holds the embedding and the
// result of every layer before the last norm.
Batch forward(Model& model, const Batch& batch, const Options& options, Task* task = nullptr);
Batch forward(Model& model, const Batch& batch, Task* task = nullptr);

// Returns the config of a source without reading its weights.
ModelConfig read_config(const Source& source);

} // namespace dllm::model
