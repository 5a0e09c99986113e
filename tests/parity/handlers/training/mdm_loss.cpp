// castlehill/mdm_loss: the loss of Open-dLLM from given logits (1, L, V), labels and a mask ratio;
// its terms and the gradient of the logits. The masks of the labels and the time of the ratio are
// injected, so prepare and feed are tested too.

#include "bare_graph.h"
#include "graph/ops.h"
#include "handlers.h"
#include "noise/loss/path_loss.h"
#include "noise/loss/token_ce.h"
#include "noise/objective.h"
#include "runner.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::parity {
namespace {

noise::ObjectiveRef objective_of(const Json& entry) {
  const Json& p = entry.at("parameters");
  Options options(noise::objective_schema("open_dllm"));
  options.set_json(Json{{"compat", "open-dllm"},
                        {"shift", 1},
                        {"min_snr_gamma", p.value("min_snr_gamma", 0.0)},
                        {"anti_repetition", p.value("anti_rep_wt", 0.0)}});
  return noise::make_objective("open_dllm", nullptr, options);
}

// The arrays of the loss: a position with a label is masked, the others are not.
Batch feed_of(Case& c, const noise::Objective& objective, int64_t vocab) {
  const Tensor labels = c.array("labels").to(DType::i32);
  Tensor ids = labels.clone(), draws(DType::f32, labels.shape());
  const auto id = ids.mutable_as<int32_t>();
  for (size_t i = 0; i < id.size(); ++i) {
    draws.mutable_as<float>()[i] = id[i] >= 0 ? 0.0f : 1.0f;
    id[i] = std::max(id[i], 0);
  }
  Batch raw;
  raw.set("ids", ids);
  raw.set("u_mask", draws);
  raw.set("t", Tensor::from(Shape{1}, c.array("mask_ratio").as<float>().first(1)));
  noise::PrepareContext context;
  context.mask_id = vocab;
  context.shift = 1;
  model::ModelConfig config;
  config.vocab_size = vocab + 1;
  return objective.feed(objective.prepare(raw, 0, 0, context), config);
}

// The logits as hidden states, and the unit matrix as the head.
Tensor unit_matrix(int64_t size) {
  Tensor made(DType::f32, {size, size});
  for (int64_t i = 0; i < size; ++i)
    made.mutable_as<float>()[static_cast<size_t>(i * (size + 1))] = 1;
  return made;
}

void run_mdm_loss_case(Case& c, const Json& entry) {
  const Tensor& given = c.array("logits");
  const int64_t length = given.shape()[1], vocab = given.shape()[2];
  const Batch feed = feed_of(c, *objective_of(entry), vocab);
  BareGraph bare("mdm_loss");
  const auto fed = [&](const char* name) { return bare.input(name, feed.at(name)); };
  const graph::Value logits = bare.input("logits", given.reshaped({length, vocab}));
  model::Head head;
  head.weight = bare.input("weight", unit_matrix(vocab));
  noise::PathRows rows;
  rows.hidden = graph::take(logits, fed(noise::kHeadRows));
  rows.targets = fed(noise::kHeadTargets);
  rows.count = fed(noise::kHeadCount);
  rows.weights = fed(noise::kHeadWeights);
  if (feed.has("row_pairs")) rows.pairs = fed("row_pairs");
  const noise::PathLoss made = noise::path_loss(head, rows);
  const graph::Value count =
      graph::maximum(graph::sum(fed(noise::kNormalizer), {0}), graph::scalar(*bare.graph, 1.0f));
  const auto mean = [&](graph::Value sum) {
    return sum.defined() ? graph::divide(sum, count) : graph::scalar(*bare.graph, 0.0f);
  };
  const graph::Value terms[] = {mean(made.masked), mean(made.path), mean(made.repetition)};
  const graph::Value loss = graph::add(graph::add(terms[0], terms[1]), terms[2]);
  bare.graph->output("loss", loss);
  for (int64_t i = 0; i < 3; ++i) bare.graph->output("term" + std::to_string(i), terms[i]);
  bare.graph->output("gradient", graph::gradients(loss, {logits})[0]);
  const std::vector<Tensor> got = bare.run(*c.topic().engine());
  const Tolerance tolerance = c.topic().tolerance(entry);
  const char* names[] = {"loss", "mdm", "path", "anti_rep_term"};
  for (size_t i = 0; i < std::size(names); ++i)
    c.close(tolerance, got[i].as<float>()[0], c.array(names[i]).as<float>()[0], names[i]);
  c.close(tolerance, got[4].reshaped(given.shape()), c.array("dlogits"), "dlogits");
}

} // namespace

void run_mdm_loss(Topic& topic) {
  for (const Json& entry : topic.list("cases"))
    topic.run(entry, [&](Case& c) { run_mdm_loss_case(c, entry); });
}

} // namespace dllm::parity
