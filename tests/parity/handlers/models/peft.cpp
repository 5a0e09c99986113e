// torch/peft: adapters in the files of PEFT on one base. Logits with the adapter and without, the
// gradients of its matrices, and the merged weights with their logits. The loss is the mean cross
// entropy of logits i against id i.

#include "handlers.h"
#include "model/adapters/adapter.h"
#include "model/adapters/adapter_file.h"
#include "model/model.h"
#include "noise/loss/evaluate.h"
#include "noise/loss/token_ce.h"
#include "noise/objective.h"
#include "noise/objectives/table.h"
#include "runner.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace dllm::parity {
namespace {

constexpr const char* kName = "default";

Tensor logits_of(model::Model& model, const Tensor& ids) {
  Options options(model::forward_schema());
  options.set_text("attention", "bidirectional");
  Batch batch;
  batch.set("ids", ids);
  return model::forward(model, batch, options).at("logits");
}

// Every position is a target and sees its own token.
Batch rows_of(const Tensor& ids) {
  const int64_t batch = ids.shape()[0], seq = ids.shape()[1];
  noise::TokenCeArrays made(batch, seq, ids.as<int32_t>());
  std::ranges::copy(ids.as<int32_t>(), made.targets.mutable_as<int32_t>().begin());
  std::ranges::fill(made.weights.mutable_as<float>(), 1.0f);
  std::ranges::fill(made.normalizer.mutable_as<float>(), static_cast<float>(seq));
  Batch rows;
  rows.set("ids", ids);
  return made.added_to(rows);
}

// "adapter:default/x.lora_A.weight" -> "base_model.model.x.lora_A.default.weight"
std::string reference_name(const std::string& own) {
  std::string name = own.substr(own.find('/') + 1);
  const size_t half = name.find(".lora_"), end = name.find('.', half + 1);
  return "base_model.model." + name.substr(0, end) + "." + kName + ".weight";
}

void check_gradients_of(Case& c, const model::Model& model, const Json& entry,
                        Tolerance tolerance) {
  Options options(noise::objective_schema("mdlm"));
  options.set_json(Json{{"attention", "bidirectional"}, {"shift", 0}});
  const noise::ObjectiveRef objective = noise::make_objective("mdlm", nullptr, options);
  const noise::LossGradients got =
      noise::loss_gradients(model, *objective, rows_of(c.array("input_ids").to(DType::i32)));
  c.close(tolerance, got.loss.sum / got.loss.normalizer, entry.at("ce_loss").get<double>(), "loss");
  int64_t compared = 0;
  for (const auto& [name, gradient] : got.gradients) {
    const std::string golden = "grad." + reference_name(name);
    if (!c.has(golden)) continue;
    ++compared;
    c.close(tolerance, gradient, c.array(golden), golden);
  }
  c.equal(compared, c.count("grad."), "gradients compared");
}

void run_adapter_case(Case& c, const Json& entry) {
  const Tolerance tolerance = c.topic().tolerance(entry);
  const Tensor ids = c.array("input_ids").to(DType::i32);
  const auto model = model::load_model(c.topic().engine(),
                                       c.topic().model_folder(entry.at("base").get<std::string>()),
                                       Options(model::model_schema()));
  c.close(tolerance, logits_of(*model, ids), c.array("base_logits"), "base_logits");
  model::load_adapter(*model, kName,
                      c.topic().folder() + "/" + entry.at("adapter").get<std::string>());
  const model::AdapterSettings& settings = model::find_adapter(*model, kName)->settings;
  const Json& config = entry.at("config");
  c.equal(settings.rank, config.at("r").get<int64_t>(), "rank");
  c.close({}, settings.alpha, config.at("lora_alpha").get<double>(), "alpha");
  c.check(settings.is_stabilised == config.value("use_rslora", false), "use_rslora");
  c.check((settings.kind == "dora") == config.value("use_dora", false), "use_dora");

  c.close(tolerance, logits_of(*model, ids), c.array("logits"), "logits");
  check_gradients_of(c, *model, entry, tolerance);
  model::set_adapter_scale(*model, kName, 0);
  c.close(tolerance, logits_of(*model, ids), c.array("base_logits"), "logits at scale 0");
  model::set_adapter_scale(*model, kName, 1);
  model::merge_adapters(*model);
  for (const std::string& name : c.names("merged."))
    c.close(tolerance, model->params().read(name.substr(std::string("merged.").size())),
            c.array(name), name);
  const Tensor merged = logits_of(*model, ids);
  c.close(tolerance, merged, c.array("merged_logits"), "merged_logits");
  // A merge rounds no more than the reference's, but for the order of sums.
  double moved = 0;
  for (size_t i = 0; i < merged.as<float>().size(); ++i)
    moved = std::max(moved, std::abs(static_cast<double>(merged.as<float>()[i]) -
                                     c.array("logits").as<float>()[i]));
  c.check(moved <= 4 * entry.at("merge_diff").get<double>(), "merge_diff");
}

} // namespace

void run_peft(Topic& topic) {
  for (const Json& entry : topic.list("cases"))
    topic.run(entry, [&](Case& c) { run_adapter_case(c, entry); });
}

} // namespace dllm::parity
