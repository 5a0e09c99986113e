#include "model/files/opened_network.h"

#include "base/error.h"
#include "ckpt/gguf/gguf_parts.h"
#include "model/files/save.h"
#include "model/network/edit_heads.h"
#include "model/params/partition.h"

#include <map>
#include <optional>
#include <utility>

namespace dllm::model {
namespace {

// Gives a base that a run used the settings that the run's objective chose.
void take_settings(const ckpt::ModelPlace::Use& use, ModelConfig& config) {
  const ModelConfig run = config_from_text(use.config, use.where);
  if (!use.has_new_mask && run.mask_token_id >= config.vocab_size) {
    fail_with_hint("load the base that the run had", Code::invalid_argument,
                   "{} names mask token {}, and this base has {} tokens", use.where,
                   run.mask_token_id, config.vocab_size);
  }
  config.attention = run.attention;
  config.shift = run.shift;
  if (!use.has_new_mask) config.mask_token_id = run.mask_token_id;
  config.block_length = run.block_length;
  config.next_token = false;
}

void take_side_files(Model& model, const Source& source) {
  for (const char* name : kSideFiles) {
    if (source.has(name)) model.set_side_file(name, source.open(name));
  }
}

// Adds the row of the mask token that the run of a checkpoint added to its base.
void add_new_mask(Model& model, const ckpt::ModelPlace::Use& use) {
  const int64_t wanted = config_from_text(use.config, use.where).mask_token_id;
  const int64_t made = model.ensure_mask_token();
  if (made == wanted) return;
  fail(Code::data_loss, "{} names mask token {}, but the base gets its mask token in row {}",
       use.where, wanted, made);
}

// A network that a checkpoint has in a folder of its own replaces the one in the files of the base.
void leave_out_parts(const ckpt::ModelPlace& place, ModelConfig& config) {
  if (config.parts.empty()) return;
  Json parts = parse_json(config.parts, "parts of config.json");
  for (const ckpt::ModelPlace::Network& network : place.networks) parts.erase(network.name);
  config.parts = parts.empty() ? "" : parts.dump();
}

// Leaves out the options that are about the base: these settings are those of the run.
Options own_options(const Options& given) {
  Options own(model_schema());
  for (const char* key : {"dtype", "cache_dtype", "check", "weights"})
    own.set_str(key, given.str(key));
  return own;
}
ckpt::ModelPlace own_place(const ckpt::ModelPlace& place,
                           const ckpt::ModelPlace::Network& network) {
  ckpt::ModelPlace own;
  own.base = network.folder;
  own.checkpoint = place.checkpoint;
  own.reference = network.reference;
  own.use = network.use;
  return own;
}

} // namespace

bool has_new_mask(const ckpt::ModelPlace& place, const Options& options) {
  return place.use && place.use->has_new_mask && options.str("mask_token").empty();
}

OpenedNetwork::OpenedNetwork(const graph::Engine& engine, const Source& source,
                             const Options& options, const ckpt::ModelPlace& place,
                             const std::string& part, Task* task)
    : source_(source), options_(options), place_(place), opened_(open_model(source)) {
  ModelConfig& config = opened_.config;
  if (place.use) take_settings(*place.use, config);
  if (!place.objective.empty()) config.objective = place.objective;
  apply_model_options(config, options);
  weights_ = find_edit_heads(
      chosen_weights(options.str("weights"), open_weights(opened_, source, task), place.checkpoint,
                     part),
      config, options.str("heads") == "edit", static_cast<uint64_t>(options.i64("seed")));
  weights_->check(partitioned_params(config, engine.mesh())); // of all networks of the files
  leave_out_parts(place, config);
  specs_ = partitioned_params(config, engine.mesh());
}

int64_t OpenedNetwork::bytes() const {
  int64_t bytes = 0;
  for (const ParamSpec& spec : specs_) {
    for (int64_t layer = 0; layer < spec.copies(); ++layer) {
      for (const ParamPiece& piece : spec.pieces)
        bytes += weights_->file_bytes(spec.logical_name(piece, layer));
    }
  }
  return bytes;
}

std::shared_ptr<Model> OpenedNetwork::load(const std::shared_ptr<graph::Engine>& engine,
                                           OtherBytes& count, Task* task) {
  const auto model = std::make_shared<Model>(engine, opened_.config);
  model->set_origin(chosen_by(options_));
  model->params().set_checks(options_.str("check") == "finite");
  const auto formats =
      place_.reference ? place_.reference->formats : std::map<std::string, std::string>();
  graph::run_on_all(*engine, [&] { // each process reads its part
    load_parameters(*model, specs_, *weights_, options_, formats, count, task);
  });
  if (!opened_.gguf) take_side_files(*model, source_);
  resolve_mask_token(*model, options_.str("mask_token"), opened_.gguf.get());
  if (opened_.gguf) set_gguf_tokenizer(*model, source_);
  if (has_new_mask(place_, options_)) add_new_mask(*model, *place_.use);
  if (!place_.tokenizer.empty())
    take_side_files(*model, *ckpt::open_model_source(place_.tokenizer));
  return model;
}

OtherNetwork::OtherNetwork(const graph::Engine& engine, const Options& options,
                           const ckpt::ModelPlace& place, const ckpt::ModelPlace::Network& network,
                           Task* task)
    : name_(network.name), options_(own_options(options)), place_(own_place(place, network)),
      source_(ckpt::open_model_source(network.folder)),
      opened_(engine, *source_, options_, place_, network.name, task) {}

void OtherNetwork::add_to(Model& model, OtherBytes& count, Task* task) {
  const std::shared_ptr<Model> own = opened_.load(model.engine_ref(), count, task);
  model.add_network(name_, *own);
  if (!place_.reference || options_.str("weights") != "live") return;
  std::optional<PartOrigin> origin = origin_at(place_.base);
  if (!origin || !origin->has_digest(place_.reference->digest))
    return; // the files changed meanwhile
  origin->has_new_mask = has_new_mask(place_, options_);
  model.set_origin_of(name_, *origin);
}

std::vector<std::unique_ptr<OtherNetwork>> open_networks(const graph::Engine& engine,
                                                         const Options& options,
                                                         const ckpt::ModelPlace& place,
                                                         Task* task) {
  std::vector<std::unique_ptr<OtherNetwork>> networks;
  for (const ckpt::ModelPlace::Network& network : place.networks) {
    if (network.name != kTeacherPart)
      networks.push_back(std::make_unique<OtherNetwork>(engine, options, place, network, task));
  }
  return networks;
}

} // namespace dllm::model
