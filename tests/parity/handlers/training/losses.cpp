// torch/losses: losses with injected uniforms, gradients and their norms. Kinds mdlm, bd3lm, dream,
// cart, ar, editflow and mc_loglikelihood and grpo_logps; alignments of edit flows.

#include "base/error.h"
#include "handlers.h"
#include "handlers/models/reference_names.h"
#include "handlers/training/edit_checks.h"
#include "handlers/training/loss_checks.h"
#include "model/model.h"
#include "noise/loss/evaluate.h"
#include "noise/loss/likelihood.h"
#include "runner.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

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

// Rows of unequal length as one array, `fill` behind them.
Tensor padded(const Json& rows, int32_t fill) {
  size_t width = 0;
  for (const Json& row : rows) width = std::max(width, row.size());
  std::vector<int32_t> ids;
  for (const Json& row : rows) {
    for (const Json& id : row) ids.push_back(id.get<int32_t>());
    ids.insert(ids.end(), width - row.size(), fill);
  }
  const auto count = static_cast<int64_t>(rows.size());
  return Tensor::from(Shape{count, static_cast<int64_t>(width)}, ids);
}

void run_editflow(Case& c, const Json& entry) {
  EditRows rows{padded(entry.at("x1_ids"), -1), padded(entry.at("x0_ids"), -1), c.array("t"), {}};
  for (const Json& row : entry.at("u_col")) rows.columns.push_back(row.get<std::vector<float>>());
  const noise::ObjectiveRef objective = reference_editflow(entry, "dllm");
  const std::shared_ptr<model::Model> model = c.topic().model(entry.at("model").get<std::string>());
  const Batch prepared = prepare_edits(*objective, *model, rows);
  check_edit_rows(c, prepared, c.array("x_tok"), c.array("x_mask"));
  check(c, entry, *model, *objective, prepared, {.attention = "bidirectional"});
}

// Of the case, else what another case of the topic has for the same model.
int64_t mask_id_of(Topic& topic, const Json& entry) {
  if (entry.contains("mask_id")) return entry.at("mask_id").get<int64_t>();
  for (const Json& other : topic.list("cases")) {
    if (other.contains("mask_id") && other.value("model", "") == entry.at("model"))
      return other.at("mask_id").get<int64_t>();
  }
  fail(Code::invalid_argument, "no case has a mask_id for model {}", entry.at("model").dump());
}

// Groups of `batch` samples with recorded first counts and permutations.
void run_likelihood(Case& c, const Json& entry) {
  const std::shared_ptr<model::Model> model = c.topic().model(entry.at("model").get<std::string>());
  model->set_mask_token(mask_id_of(c.topic(), entry));
  noise::LikelihoodRunner runner(model);
  const auto prefix = entry.at("prefix").get<std::vector<int32_t>>();
  const auto target = entry.at("target").get<std::vector<int32_t>>();
  const auto orders = entry.at("permutations").get<std::vector<std::vector<int32_t>>>();
  const auto samples = entry.at("batch").get<int64_t>();
  double sum = 0;
  size_t next = 0;
  for (const Json& first : entry.at("k_draws")) {
    noise::LikelihoodGroup group{
        noise::spread_counts(first.get<int64_t>(), static_cast<int64_t>(target.size()), samples),
        {}};
    for (int64_t j = 0; j < samples; ++j) group.permutations.push_back(orders.at(next++));
    sum += runner.run_group(prefix, target, group);
  }
  c.close(c.topic().tolerance(entry), sum / static_cast<double>(entry.at("k_draws").size()),
          entry.at("value").get<double>(), "log likelihood");
}

// Log-probabilities of answers in one pass, token by token: with the recorded ones as those of the
// sampling model and an advantage of 1 the loss of one token is -p / p_recorded.
void run_grpo(Case& c, const Json& entry) {
  const std::shared_ptr<model::Model> model = c.topic().model(entry.at("model").get<std::string>());
  model->set_mask_token(mask_id_of(c.topic(), entry));
  Options options(noise::objective_schema("grpo"));
  options.set_json(
      Json{{"mask_prompt", entry.at("p_mask_prompt")}, {"guidance", entry.at("cfg_scale")}});
  const noise::ObjectiveRef objective = noise::make_objective("grpo", nullptr, options);
  const Tensor &ids = c.array("input_ids"), &padding = c.array("attention_mask"),
               &log_probs = c.array("logps");
  const int64_t rows = ids.shape()[0], seq = ids.shape()[1];
  const int64_t prompt = seq - entry.at("logits_to_keep").get<int64_t>();
  std::vector<uint8_t> keep;
  std::vector<float> recorded(static_cast<size_t>(rows * seq), 0.0f);
  for (int64_t b = 0; b < rows; ++b) {
    for (int64_t i = 0; i < seq; ++i) keep.push_back(i < prompt ? 1 : 0);
    std::ranges::copy(log_probs.row(b).as<float>(), recorded.begin() + b * seq + prompt);
  }
  Batch raw;
  raw.set("ids", ids);
  raw.set("segments", padding);
  raw.set("keep", Tensor::from(Shape{rows, seq}, keep));
  raw.set("u_mask", c.array("u_mask"));
  raw.set("advantages",
          Tensor::from(Shape{rows}, std::vector<float>(static_cast<size_t>(rows), 1.0f)));
  raw.set("old_log_probs", Tensor::from(Shape{rows, seq}, recorded));
  const Batch prepared =
      objective->prepare(raw, 0, 0, noise::prepare_context(*objective, model->config()));
  noise::LossRunner runner(model, objective);
  for (int64_t at = 0; at < rows * seq; ++at) {
    const int32_t target = prepared.at("targets").as<int32_t>()[static_cast<size_t>(at)];
    if (target < 0) continue;
    Batch one = prepared;
    std::vector<int32_t> targets(static_cast<size_t>(rows * seq), -1);
    targets[static_cast<size_t>(at)] = target;
    one.set("targets", Tensor::from(Shape{rows, seq}, targets));
    const double want = recorded[static_cast<size_t>(at)];
    c.close(c.topic().tolerance(entry), want + std::log(-runner.run(one, 0, 0, nullptr).sum), want,
            "log probability of token " + std::to_string(at));
  }
}

} // namespace

void run_losses(Topic& topic) {
  for (const Json& entry : topic.list("masks")) {
    const std::string name = entry.at("name").get<std::string>();
    topic.run(entry, [&](Case& c) {
      c.set_prefix("");
      if (name.find("leftpad") != std::string::npos) return check_left_padded(c, entry);
      check_mask(c, name, entry.at("L").get<int32_t>(), entry.at("block").get<int32_t>());
    });
  }
  int64_t number = 0;
  for (const Json& entry : topic.list("alignments")) {
    topic.run("alignments." + std::to_string(number++),
              [&](Case& c) { check_alignment(c, entry); });
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
      else if (kind == "editflow")
        run_editflow(c, entry);
      else if (kind == "mc_loglikelihood")
        run_likelihood(c, entry);
      else if (kind == "grpo_logps")
        run_grpo(c, entry);
      else
        c.skip("objective " + kind + " arrives later");
    });
  }
}

} // namespace dllm::parity
