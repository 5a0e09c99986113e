// torch/losses: losses with injected uniforms, gradients and their norms. Kinds mdlm and ar.

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

void check(Case& c, const Json& entry, model::Model& model, const noise::Objective& objective,
           const Batch& prepared, bool causal) {
  const Tolerance tolerance = c.topic().tolerance(entry);
  check_logits(c, model, prepared, {1e-4, tolerance.relative}, "dllm", causal);
  const noise::LossGradients got = noise::loss_gradients(model, objective, prepared);
  check_gradients(c, got,
                  {tolerance.relative, tolerance.relative, entry.at("value").get<double>(), {}});
  if (entry.contains("grad_norms")) check_gradient_norms(c, got, entry.at("grad_norms"), tolerance);
}

Batch raw_batch(Case& c, const Json& entry) {
  Batch raw;
  raw.set("ids", c.array("input_ids"));
  raw.set("labels", c.array("labels"));
  if (entry.value("attention_mask_given", true)) set_padding(raw, c.array("attention_mask"), false);
  return raw;
}

void run_mdlm(Case& c, const Json& entry) {
  const noise::ObjectiveRef objective = reference_mdlm(entry, "dllm");
  const std::shared_ptr<model::Model> model = c.topic().model(entry.at("model").get<std::string>());
  Batch raw = raw_batch(c, entry);
  raw.set("u_t", c.array("u_t"));
  raw.set("u_mask", c.array("u_mask"));
  noise::PrepareContext context = noise::prepare_context(*objective, model->config());
  context.bos_id = entry.value("bos_id", int64_t{-1});
  const Batch prepared = objective->prepare(raw, 0, 0, context);
  c.close({1e-6, 1e-6}, prepared.at("t"), c.array("t"), "t");
  c.equal(prepared.at("ids"), c.array("noised"), "noised");
  check(c, entry, *model, *objective, prepared, false);
}

void run_ar(Case& c, const Json& entry) {
  const noise::ObjectiveRef objective = noise::make_objective("ar");
  const std::shared_ptr<model::Model> model = c.topic().model(entry.at("model").get<std::string>());
  const Batch raw = raw_batch(c, entry);
  const Batch prepared =
      objective->prepare(raw, 0, 0, noise::prepare_context(*objective, model->config()));
  check(c, entry, *model, *objective, prepared, true);
}

} // namespace

void run_losses(Topic& topic) {
  for (const Json& entry : topic.list("cases")) {
    const std::string kind = entry.at("loss_kind").get<std::string>();
    topic.run(entry, [&](Case& c) {
      if (kind == "mdlm")
        run_mdlm(c, entry);
      else if (kind == "ar")
        run_ar(c, entry);
      else
        c.skip("objective " + kind + " arrives later");
    });
  }
}

} // namespace dllm::parity
