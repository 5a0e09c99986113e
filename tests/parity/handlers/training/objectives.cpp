// jax/objectives: what is corrupted, the loss and its whole gradient. One file per case; keys as in
// the set's README.

#include "base/error.h"
#include "handlers.h"
#include "handlers/models/reference_names.h"
#include "handlers/training/edit_checks.h"
#include "handlers/training/loss_checks.h"
#include "model/model.h"
#include "noise/loss/evaluate.h"
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

void run_masked(Case& c, const Json& entry, const std::string& kind) {
  c.set_prefix("");
  const Json& parameters = entry.at("parameters");
  const noise::ObjectiveRef objective = reference_objective(kind, parameters, "dllm-jax");
  const std::shared_ptr<model::Model> model = c.topic().model(entry.at("model").get<std::string>());

  Batch raw;
  raw.set("ids", c.array("in.input_ids"));
  raw.set("labels", c.array("in.labels"));
  if (c.has("in.attention_mask") && kind != "bd3lm")
    set_padding(raw, c.array("in.attention_mask"), true);
  noise::PrepareContext context = noise::prepare_context(*objective, model->config());
  context.bos_id = parameters.at("bos_id").get<int64_t>();
  context.batch_key = key_of(c.array("key"));
  const Batch prepared = objective->prepare(raw, 0, 0, context);

  c.close({1e-6, 1e-6}, prepared.at("t"), c.array("t"), "t");
  c.equal(prepared.at("ids"), c.array("batch.model_input_ids"), "model_input_ids");
  const int64_t columns = c.array("batch.masked_mask").shape()[1];
  const Tensor masked = masked_of(first_columns(prepared.at("targets"), columns));
  c.equal(masked, c.array("batch.masked_mask"), "masked_mask");
  // Under the sequence norm our weights carry the row's share already.
  if (parameters.at("loss_norm_type") != "sequence") {
    c.close({1e-6, 1e-5}, first_columns(prepared.at("weights"), columns),
            c.array("batch.loss_weights"), "loss_weights", masked.to(DType::u8));
  }
  check_logits(c, *model, prepared, {1e-4, 1e-4},
               {.attention = kind == "bd3lm" ? "two_stream" : "bidirectional",
                .block_length = parameters.value("block_size", int64_t{0}),
                .empty_average = true});
  check_gradients(c, noise::loss_gradients(*model, *objective, prepared),
                  {entry.value("rtol_loss", 2e-5), 2e-5, entry.at("loss").get<double>(),
                   entry.at("grad_norm").get<double>()});
}

// The first forward pass sees the masked rows, the second what it predicted itself.
void run_dmax(Case& c, const Json& entry) {
  c.set_prefix("");
  const Json& parameters = entry.at("parameters");
  const noise::ObjectiveRef objective = reference_dmax(parameters, "dllm-jax");
  const std::shared_ptr<model::Model> model = c.topic().model(entry.at("model").get<std::string>());
  Batch raw;
  raw.set("ids", c.array("in.input_ids"));
  if (c.has("in.labels")) raw.set("labels", c.array("in.labels"));
  if (c.has("in.noisy_input_ids")) raw.set("noisy_ids", c.array("in.noisy_input_ids"));
  const int64_t rows = raw.at("ids").shape()[0], seq = raw.at("ids").shape()[1];
  if (c.has("in.flag")) raw.set("flag", c.array("in.flag").reshaped({rows}));
  noise::PrepareContext context = noise::prepare_context(*objective, model->config());
  context.batch_key = key_of(c.array("key"));
  Batch prepared = objective->prepare(raw, 0, 0, context);
  c.equal(prepared.at("ids"), c.array("batch.model_input_ids"), "model_input_ids");
  c.equal(prepared.at("positions"), c.array("batch.position_ids"), "position_ids");
  // Every trainable token counts; the model replaces masked ones of the rows that are flagged.
  c.equal(masked_of(first_columns(prepared.at("targets"), seq)), c.array("batch.maskable_mask"),
          "maskable_mask");
  Tensor replaced = c.array("batch.masked_mask").clone();
  for (int64_t i = 0; i < rows * seq; ++i) {
    replaced.mutable_as<int32_t>()[static_cast<size_t>(i)] *=
        c.array("batch.on_policy_flag").as<int32_t>()[static_cast<size_t>(i / seq)];
  }
  c.equal(first_columns(prepared.at("rollout"), seq).to(DType::i32), replaced, "rollout");

  LogitsForm form{.attention = "two_stream",
                  .block_length = parameters.at("block_size").get<int64_t>(),
                  .empty_average = true,
                  .array = "rollout.logits"};
  check_logits(c, *model, prepared, {1e-4, 1e-4}, form);
  check_gradients(c, noise::loss_gradients(*model, *objective, prepared),
                  {entry.value("rtol_loss", 2e-5), 2e-5, entry.at("loss").get<double>(),
                   entry.at("grad_norm").get<double>()});
  prepared.set("ids", c.array("final.model_input_ids"));
  form.array = "final.logits";
  check_logits(c, *model, prepared, {1e-4, 1e-4}, form);
}

void run_editflow(Case& c, const Json& entry) {
  c.set_prefix("");
  const noise::ObjectiveRef objective = reference_editflow(entry.at("parameters"), "dllm-jax");
  const std::shared_ptr<model::Model> model = c.topic().model(entry.at("model").get<std::string>());
  EditRows rows{c.array("in.x1_ids"), c.array("in.x0_ids"), c.array("t"), {}};
  const Tensor& mix = c.array("u_mix"); // 2: no column
  const auto width = static_cast<size_t>(mix.shape()[1]);
  for (size_t b = 0; b < static_cast<size_t>(mix.shape()[0]); ++b) {
    const auto row = mix.as<float>().subspan(b * width, width);
    rows.columns.emplace_back(row.begin(), row.end());
  }
  const Batch prepared = prepare_edits(*objective, *model, rows);
  check_edit_rows(c, prepared, c.array("batch.x_tok"), c.array("batch.x_mask"));
  check_gradients(c, noise::loss_gradients(*model, *objective, prepared),
                  {entry.value("rtol_loss", 2e-5), 2e-5, entry.at("loss").get<double>(),
                   entry.at("grad_norm").get<double>()});
}

} // namespace

void run_objectives(Topic& topic) {
  for (const Json& entry : topic.list("cases")) {
    const std::string objective = entry.at("objective").get<std::string>();
    topic.run(entry, [&](Case& c) {
      if (objective == "mdlm" || objective == "bd3lm" || objective == "dream")
        run_masked(c, entry, objective);
      else if (objective == "dmax")
        run_dmax(c, entry);
      else if (objective == "editflow")
        run_editflow(c, entry);
      else
        c.skip("objective " + objective + " arrives later");
    });
  }
}

} // namespace dllm::parity
