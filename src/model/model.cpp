#include "model/model.h"

#include "base/error.h"
#include "model/forward.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::model {

Model::Model(std::shared_ptr<graph::Engine> engine, ModelConfig config)
    : engine_(std::move(engine)), config_(std::move(config)), params_(engine_),
      cache_(std::make_unique<ForwardCache>()) {}

Model::~Model() = default;

void Model::set_side_file(const std::string& name, Bytes content) {
  const auto found = std::find_if(side_files_.begin(), side_files_.end(),
                                  [&](const auto& entry) { return entry.first == name; });
  if (found != side_files_.end())
    found->second = std::move(content);
  else
    side_files_.emplace_back(name, std::move(content));
}

int64_t Model::i64(const std::string& key) const {
  if (key == "vocab") return config_.vocab_size;
  if (key == "hidden") return config_.hidden_size;
  if (key == "layers") return config_.layers;
  if (key == "max_length") return config_.max_positions;
  if (key == "params") return params_.parameter_count();
  if (key == "bytes") return params_.bytes();
  if (key == "mask_id") {
    if (config_.mask_token_id >= 0) return config_.mask_token_id;
    fail_with_hint("set model.mask_token, or train the model, which adds one", Code::not_found,
                   "the model has no mask token");
  }
  fail_with_hint("keys are vocab hidden layers max_length mask_id params bytes", Code::not_found,
                 "a model has no number named {}", key);
}

Json Model::describe() const {
  return {{"family", config_.family},
          {"attention", attention_name(config_.attention)},
          {"shift", config_.shift},
          {"mask_token_id", config_.mask_token_id},
          {"block_length", config_.block_length},
          {"vocab", config_.vocab_size},
          {"hidden", config_.hidden_size},
          {"max_length", config_.max_positions},
          {"runs", Json::array({{{"kind", config_.family}, {"layers", config_.layers}}})},
          {"params", params_.parameter_count()},
          {"bytes", params_.bytes()},
          {"version", params_.version()},
          {"storage", params_.describe()}};
}

std::shared_ptr<Model> clone_model(const Model& model) {
  const auto copy = std::make_shared<Model>(model.engine_ref(), model.config());
  copy->params().set_checks(model.params().checks());
  const std::vector<ParamStore::Physical>& physical = model.params().physical();
  const std::vector<graph::BufferRef> buffers = model.params().snapshot();
  for (size_t i = 0; i < physical.size(); ++i) {
    if (physical[i].scale_of >= 0) continue;
    ParamForm form(physical[i].spec, physical[i].dtype);
    form.values = buffers[i]->read().clone();
    if (form.scale.defined()) form.scale = buffers[i + 1]->read().clone();
    copy->params().add(physical[i].spec, form);
  }
  for (const auto& [name, content] : model.side_files()) copy->set_side_file(name, content);
  return copy;
}

} // namespace dllm::model
