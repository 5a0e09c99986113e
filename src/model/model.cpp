#include "model/model.h"

#include "base/error.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::model {

constexpr size_t kKeptForwardPrograms = 4;

Model::Model(std::shared_ptr<graph::Engine> engine, ModelConfig config)
    : engine_(std::move(engine)), config_(std::move(config)), params_(engine_),
      forward_cache_(kKeptForwardPrograms) {}

Model::~Model() = default;

Model::SideFiles Model::side_files() const {
  const std::lock_guard lock(words_);
  return side_files_;
}

ModelConfig Model::config_now() const {
  const std::lock_guard lock(words_);
  return config_;
}

void Model::set_side_file(const std::string& name, Bytes content) {
  const std::lock_guard lock(words_);
  const auto found = std::find_if(side_files_.begin(), side_files_.end(),
                                  [&](const auto& entry) { return entry.first == name; });
  if (found != side_files_.end())
    found->second = std::move(content);
  else
    side_files_.emplace_back(name, std::move(content));
}

void Model::set_attention(AttentionKind attention, int shift, int64_t block_length) {
  const int64_t block = block_length > 0 ? block_length : config_.block_length;
  if (attention == config_.attention && shift == config_.shift && block == config_.block_length)
    return;
  {
    const std::lock_guard lock(words_);
    config_.attention = attention;
    config_.shift = shift;
    config_.block_length = block;
  }
  forward_cache_.clear();
  params_.bump();
}

void Model::forget_programs() {
  forward_cache_.clear();
  params_.bump();
}

int64_t Model::i64(const std::string& key) const {
  const ModelConfig config = config_now();
  if (key == "vocab") return config.vocab_size;
  if (key == "hidden") return config.hidden_size;
  if (key == "layers") return config.layers;
  if (key == "max_length") return config.max_positions;
  if (key == "params") return params_.parameter_count();
  if (key == "bytes") return params_.bytes();
  if (key == "mask_id") {
    if (config.mask_token_id >= 0) return config.mask_token_id;
    fail_with_hint("set model.mask_token, or train the model, which adds one", Code::not_found,
                   "the model has no mask token");
  }
  fail_with_hint("keys are vocab hidden layers max_length mask_id params bytes", Code::not_found,
                 "a model has no number named {}", key);
}

Json Model::describe() const {
  const ModelConfig config = config_now();
  Json made = {{"family", config.family},
               {"attention", attention_name(config.attention)},
               {"shift", config.shift},
               {"mask_token_id", config.mask_token_id},
               {"block_length", config.block_length},
               {"vocab", config.vocab_size},
               {"hidden", config.hidden_size},
               {"max_length", config.max_positions},
               {"runs", Json::array({{{"kind", config.family}, {"layers", config.layers}}})},
               {"params", params_.parameter_count()},
               {"bytes", params_.bytes()},
               {"version", params_.version()},
               {"storage", params_.describe()}};
  if (const std::string why = params_.lost(); !why.empty()) made["lost"] = why;
  return made;
}

std::shared_ptr<Model> clone_model(const Model& model,
                                   const std::function<Tensor(size_t index)>& instead) {
  const auto copy = std::make_shared<Model>(model.engine_ref(), model.config_now());
  copy->params().set_checks(model.params().checks());
  copy->params().set_cuts(model.params().cuts());
  const std::vector<ParamStore::Physical> entries = model.params().entries();
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].scale_of >= 0) continue;
    const Tensor other = instead ? instead(i) : Tensor();
    ParamForm form(entries[i].spec, *entries[i].format);
    form.values = (other.defined() ? other : entries[i].buffer->read()).clone();
    if (form.scale.defined()) form.scale = entries[i + 1].buffer->read().clone();
    copy->params().add(entries[i].spec, form);
  }
  for (const auto& [name, content] : model.side_files()) copy->set_side_file(name, content);
  copy->set_origin(model.origin());
  return copy;
}

} // namespace dllm::model
