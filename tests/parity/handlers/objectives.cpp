// jax/objectives: what is corrupted, the loss and its whole gradient. One file per case; keys as in
// the set's README.

#include "base/error.h"
#include "handlers.h"
#include "loss_checks.h"
#include "model/model.h"
#include "noise/evaluate.h"
#include "reference_names.h"
#include "runner.h"

#include <nlohmann/json.hpp>

namespace dllm::parity {
namespace {

Key key_of(const Tensor& words) {
  return {words.as<uint32_t>()[0], words.as<uint32_t>()[1]};
}

// Positions that count: where the reference masked.
Tensor masked_of(const Tensor& targets) {
  Tensor masked(DType::i32, targets.shape());
  for (size_t i = 0; i < masked.mutable_as<int32_t>().size(); ++i) {
    masked.mutable_as<int32_t>()[i] = targets.as<int32_t>()[i] >= 0 ? 1 : 0;
  }
  return masked;
}

void run_mdlm(Case& c, const Json& entry) {
  c.set_prefix("");
  const Json& parameters = entry.at("parameters");
  const noise::ObjectiveRef objective = reference_mdlm(parameters, "dllm-jax");
  const std::shared_ptr<model::Model> model = c.topic().model(entry.at("model").get<std::string>());

  Batch raw;
  raw.set("ids", c.array("in.input_ids"));
  raw.set("labels", c.array("in.labels"));
  if (c.has("in.attention_mask")) set_padding(raw, c.array("in.attention_mask"), true);
  noise::PrepareContext context = noise::prepare_context(*objective, model->config());
  context.bos_id = parameters.at("bos_id").get<int64_t>();
  context.batch_key = key_of(c.array("key"));
  const Batch prepared = objective->prepare(raw, 0, 0, context);

  c.close({1e-6, 1e-6}, prepared.at("t"), c.array("t"), "t");
  c.equal(prepared.at("ids"), c.array("batch.model_input_ids"), "model_input_ids");
  const Tensor masked = masked_of(prepared.at("targets"));
  c.equal(masked, c.array("batch.masked_mask"), "masked_mask");
  // Under the sequence norm our weights carry the row's share already.
  if (parameters.at("loss_norm_type") != "sequence") {
    c.close({1e-6, 1e-5}, prepared.at("weights"), c.array("batch.loss_weights"), "loss_weights",
            masked.to(DType::u8));
  }
  check_logits(c, *model, prepared, {1e-4, 1e-4}, "dllm-jax");
  check_gradients(c, noise::loss_gradients(*model, *objective, prepared),
                  {entry.value("rtol_loss", 2e-5), 2e-5, entry.at("loss").get<double>(),
                   entry.at("grad_norm").get<double>()});
}

} // namespace

void run_objectives(Topic& topic) {
  for (const Json& entry : topic.list("cases")) {
    const std::string objective = entry.at("objective").get<std::string>();
    topic.run(entry, [&](Case& c) {
      if (objective != "mdlm") c.skip("objective " + objective + " arrives later");
      run_mdlm(c, entry);
    });
  }
}

} // namespace dllm::parity
