#include "train/prepare_model.h"

namespace dllm::train {
namespace {

// Attention and shift of the model become those of the objective, so that it decodes, and is saved, as it was trained.
// What the user chose with the model stays.
void set_attention(model::Model& model, const noise::Objective& objective) {
  const model::ModelConfig& config = model.config();
  const model::Origin& origin = model.origin();
  const Options& options = objective.options();
  int shift = objective.shift(config);
  // A next-token model goes on predicting from the state before a token.
  if (objective.needs_mask_id() && origin.next_token && options.i64("shift") < 0 && options.str("compat") == "none")
    shift = 1;
  if (origin.shift_chosen) shift = config.shift;
  model::AttentionKind attention =
      origin.attention_chosen ? config.attention : objective.attention(config);
  if (attention == model::AttentionKind::two_stream) attention = model::AttentionKind::block_causal;  // decodes so
  model.set_sight(attention, shift, options.i64("block_length"));
}

}  // namespace

void prepare_model(model::Model& model, const noise::Objective& objective, const Options& options) {
  const int64_t mask_id = objective.options().i64("mask_id");
  if (objective.needs_mask_id() && mask_id < 0) {
    model.ensure_mask_token();
  } else if (mask_id >= 0 && mask_id < model.config().vocab_size && !model.origin().mask_chosen) {
    model.set_mask_token(mask_id);
  }
  set_attention(model, objective);
  for (const std::string& pattern : options.list("freeze")) model.params().set_trainable(pattern, false);
  model.params().make_masters();
}

}  // namespace dllm::train
