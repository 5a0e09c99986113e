// torch/losses: losses with injected uniforms, gradients and their norms. Kinds mdlm, bd3lm, dream, cart and ar.

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
           const Batch& prepared, const LogitsForm& form) {
  const Tolerance tolerance = c.topic().tolerance(entry);
  check_logits(c, model, prepared, {1e-4, tolerance.relative}, form);
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

void run_masked(Case& c, const Json& entry, const std::string& kind) {
  const noise::ObjectiveRef objective = reference_objective(kind, entry, "dllm");
  const std::shared_ptr<model::Model> model = c.topic().model(entry.at("model").get<std::string>());
  Batch raw = raw_batch(c, entry);
  raw.set("u_t", c.array("u_t"));
  raw.set("u_mask", c.array("u_mask"));
  noise::PrepareContext context = noise::prepare_context(*objective, model->config());
  context.bos_id = entry.value("bos_id", int64_t{-1});
  const Batch prepared = objective->prepare(raw, 0, 0, context);
  c.close({1e-6, 1e-6}, prepared.at("t"), c.array("t"), "t");
  const Tensor& noised = c.array("noised");
  c.equal(first_columns(prepared.at("ids"), noised.shape()[1]), noised, "noised");
  LogitsForm form;
  form.attention = kind == "bd3lm" ? "two_stream" : "bidirectional";
  form.block_length = entry.value("block_size", int64_t{0});
  check(c, entry, *model, *objective, prepared, form);
}

// CART weights of a mask alone: rows of one prepared batch whose noise is that mask.
void run_cart(Case& c, const Json& entry) {
  check_cart(c, entry.at("p").get<double>(), c.array("mask"), c.array("weights"),
             c.topic().tolerance(entry));
}

void run_ar(Case& c, const Json& entry) {
  const noise::ObjectiveRef objective = noise::make_objective("ar");
  const std::shared_ptr<model::Model> model = c.topic().model(entry.at("model").get<std::string>());
  const Batch raw = raw_batch(c, entry);
  const Batch prepared =
      objective->prepare(raw, 0, 0, noise::prepare_context(*objective, model->config()));
  check(c, entry, *model, *objective, prepared, {.attention = "causal"});
}

} // namespace

void run_losses(Topic& topic) {
  for (const Json& entry : topic.list("masks")) {
    const std::string name = entry.at("name").get<std::string>();
    topic.run(entry, [&](Case& c) {
      c.set_prefix("");
      if (name.find("twostream") == std::string::npos)
        c.skip("masks of left-padded prompts are those of a decoder's canvas");
      check_mask(c, name, entry.at("L").get<int32_t>(), entry.at("block").get<int32_t>());
    });
  }
  for (const Json& entry : topic.list("cases")) {
    const std::string kind = entry.at("loss_kind").get<std::string>();
    topic.run(entry, [&](Case& c) {
      if (kind == "mdlm" || kind == "bd3lm" || kind == "dream")
        run_masked(c, entry, kind);
      else if (kind == "cart")
        run_cart(c, entry);
      else if (kind == "ar")
        run_ar(c, entry);
      else
        c.skip("objective " + kind + " arrives later");
    });
  }
}

} // namespace dllm::parity
