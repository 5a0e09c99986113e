#include "train/state.h"

#include "base/error.h"

namespace dllm::train {
namespace {

// Attention and shift of the model become those of the objective, so that it decodes, and is saved,
// as it was trained. What the user chose with the model stays.
void set_sight(model::Model& model, const noise::Objective& objective) {
  const model::ModelConfig& config = model.config();
  const model::Origin& origin = model.origin();
  const Options& options = objective.options();
  int shift = objective.shift(config);
  // A next-token model predicts from the state before, as it did so far.
  if (objective.needs_mask_id() && origin.next_token && options.i64("shift") < 0 &&
      options.str("compat") == "none")
    shift = 1;
  if (origin.shift_chosen) shift = config.shift;
  const model::AttentionKind attention =
      origin.attention_chosen ? config.attention : objective.attention(config);
  model.set_sight(attention, shift, options.i64("block_length"));
}

void prepare_model(model::Model& model, const noise::Objective& objective, const Options& options) {
  const int64_t mask_id = objective.options().i64("mask_id");
  if (objective.needs_mask_id() && mask_id < 0) {
    model.ensure_mask_token();
  } else if (mask_id >= 0 && mask_id < model.config().vocab_size && !model.origin().mask_chosen) {
    model.set_mask_token(mask_id);
  }
  set_sight(model, objective);
  for (const std::string& pattern : options.list("freeze"))
    model.params().set_trainable(pattern, false);
  model.params().make_masters();
}

} // namespace

Trainer::State::State(std::shared_ptr<model::Model> model_in, noise::ObjectiveRef objective_in,
                      const Options& options_in)
    : model(std::move(model_in)), objective(std::move(objective_in)), options(options_in),
      rate(learning_rate_of(options)), hyper(hyper_of(options)), evaluator(model, objective),
      control(kControlCount), agreed(kControlCount) {
  prepare_model(*model, *objective, options);
  spec = program_spec(*model, *objective, options);
  const std::vector<graph::BufferRef> weights = model->params().snapshot();
  for (const size_t index : spec.trained) {
    const auto& entry = model->params().physical()[index];
    Slot slot;
    slot.physical = index;
    slot.first = engine().upload(Tensor(DType::f32, entry.shape));
    slot.second = engine().upload(Tensor(DType::f32, entry.shape));
    if (spec.ema) slot.ema = engine().upload(weights[index]->read());
    slots.push_back(std::move(slot));
  }
  for (const char* key : {"step", "loss", "grad_norm", "lr", "tokens", "tokens_per_second", "mfu",
                          "memory", "compiles", "skipped"}) {
    metrics[key] = 0.0;
  }
}

void Trainer::State::check_usable() const {
  if (lost.empty()) return;
  fail_with_hint("restore the last checkpoint", Code::aborted, "the trainer's state was lost: {}",
                 lost);
}

void Trainer::State::allocate_sums() {
  for (Slot& slot : slots) {
    if (slot.sums == nullptr)
      slot.sums =
          engine().upload(Tensor(DType::f32, model->params().physical()[slot.physical].shape));
  }
}

} // namespace dllm::train
