// families/llada22: decoding rules driven by stored logits (block i32(S+1, block), logits f32(S,
// block, V)), and the choice of experts by blocks (routing.*: router_logits f32(T, E), expert_bias
// f32(E), experts, weights (T, k)).

#include "base/error.h"
#include "decode/request/policy.h"
#include "graph/ops.h"
#include "handlers.h"
#include "handlers/models/family_cases.h"
#include "model/layers/layer_kind.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace dllm::parity {
namespace {

// What a pass would say of a position with these logits; left: the token before it, -1: none.
decode::Prediction prediction_from(std::span<const float> logits, int64_t position, int64_t top,
                                   int32_t left) {
  const float most = *std::max_element(logits.begin(), logits.end());
  std::vector<double> chance;
  double sum = 0;
  for (const float x : logits) {
    chance.push_back(std::exp(static_cast<double>(x - most)));
    sum += chance.back();
  }
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  decode::Prediction p;
  p.position = position;
  for (size_t k = 0; k < std::min(order.size(), static_cast<size_t>(top)); ++k) {
    p.top_ids.push_back(static_cast<int32_t>(order[k]));
    p.top_probs.push_back(static_cast<float>(chance[order[k]] / sum));
  }
  if (left >= 0) p.left_probability = static_cast<float>(chance[static_cast<size_t>(left)] / sum);
  p.token = p.argmax = p.top_ids[0];
  p.probability = p.max_probability = p.shaped_probability = p.top_probs[0];
  return p;
}

struct Rule {
  std::string policy;
  Json own;
};

Rule rule_of(const Json& cases, const Json& entry) {
  const Json& p = entry.at("parameters");
  const auto rule = entry.at("rule").get<std::string>();
  Rule made{"llada2", {{"threshold", p.at("threshold")}, {"num_to_transfer", 1}}};
  if (rule == "joint_threshold") {
    made.own["editing_threshold"] = p.at("edit_threshold");
    made.own["max_post_steps"] = p.at("max_post_edit_steps");
    made.own["left_penalty"] = p.value("penalty_lambda", 0.0);
  } else if (rule == "joint_threshold_indel") {
    made = {"llada22",
            {{"threshold", p.at("threshold")},
             {"edit_threshold", p.at("edit_threshold")},
             {"max_post_steps", p.at("max_post_edit_steps")},
             {"delete_token", cases.at("delete_token_id")},
             {"split_token", cases.at("split_token_id")}}};
  }
  made.own["block_length"] = cases.at("block_size");
  made.own["suppress_mask"] = false;
  return made;
}

decode::Request first_canvas(const Ids& ids, int64_t prompt) {
  decode::Request request;
  request.ids = ids;
  request.prompt = prompt;
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool given = static_cast<int64_t>(i) < prompt;
    request.states.push_back(given ? decode::State::fixed : decode::State::masked);
    request.confidence.push_back(given ? 1.0f : 0.0f);
  }
  return request;
}

int64_t number_at(const Tensor& array, int64_t index) {
  return static_cast<int64_t>(array.to(DType::f64).as<double>()[static_cast<size_t>(index)]);
}

// What the reference remembers after a step. It needs a call more than ours to see that nothing is
// left to do: our request is over before that call, or after one that changes nothing.
void compare_memory(Case& c, const decode::Session& session, const decode::Request& request,
                    const Ids& before, bool was_active, int64_t step) {
  const bool idle = before == request.ids && request.open_count(0, request.length()) == 0;
  const bool over = !was_active || (idle && !request.active());
  c.equal(over, number_at(c.array("done"), step), fmt::format("done after step {}", step));
  if (!was_active) return;
  const Json memory = session.memory();
  c.equal(memory.at("post_steps").get<int64_t>(), number_at(c.array("post_edit_steps"), step),
          fmt::format("steps without masks after step {}", step));
  if (!memory.contains("waiting")) return;
  const Tensor original = c.array("original_mask").row(step).to(DType::f64);
  size_t cell = 0;
  for (size_t i = 0; i < request.ids.size(); ++i) {
    if (request.states[i] == decode::State::fixed) continue;
    const bool open = request.is_open(static_cast<int64_t>(i));
    c.equal(memory.at("waiting").at(cell++).get<bool>(), open && original.as<double>()[i] != 0,
            fmt::format("mask of the start at {} after step {}", i, step));
  }
}

void run_rule(Case& c, const Json& cases, const Json& entry) {
  const Rule rule = rule_of(cases, entry);
  Options options(decode::decoder_schema(rule.policy));
  options.set_json(rule.own);
  const noise::ScheduleRef schedule = noise::make_schedule(options.str("schedule"));
  model::ModelConfig config;
  config.vocab_size = cases.at("vocab_size").get<int64_t>();
  config.attention = model::AttentionKind::block_causal;
  const auto mask = cases.at("mask_token_id").get<int32_t>();
  const decode::PolicySetup setup{
      options, *schedule, config, mask, {cases.at("block_size").get<int64_t>(), 0, false}, 0};
  const auto policy = decode::make_policy(rule.policy, setup);
  const Tensor &block = c.array("block"), &logits = c.array("logits");
  decode::Request request =
      first_canvas(family_ids(block.row(0)), entry.at("prompt_tokens").get<int64_t>());
  const auto session = policy->begin(request);
  for (int64_t step = 0; step < logits.shape()[0]; ++step) {
    const Ids before = request.ids;
    const bool was_active = request.active();
    if (was_active) {
      const decode::PassRequest pass = session->next_pass(request, {});
      std::vector<decode::Prediction> said;
      for (const int64_t position : pass.positions) {
        const int32_t left = position > 0 ? request.ids[static_cast<size_t>(position - 1)] : -1;
        said.push_back(prediction_from(logits.row(step).row(position).as<float>(), position,
                                       policy->needs().top, left));
      }
      session->apply(request, pass, said);
      ++request.steps;
    }
    c.equal(text_of(request.ids), text_of(family_ids(block.row(step + 1))),
            fmt::format("block after step {}", step));
    compare_memory(c, *session, request, before, was_active, step);
  }
  c.check(!request.active(), "the block is not done after the reference's steps");
}

void run_routing(Case& c, const Json& entry) {
  model::ExpertConfig experts;
  experts.count = entry.at("num_experts").get<int64_t>();
  experts.per_token = entry.at("num_experts_per_tok").get<int64_t>();
  experts.scale = entry.at("routed_scaling_factor").get<double>();
  experts.block = entry.at("block_size").get<int64_t>();
  experts.capacity = entry.at("expert_capacity").get<int64_t>();
  experts.sigmoid = experts.normalize = true;
  const Tensor &logits = c.array("router_logits"), &bias = c.array("expert_bias");
  const int64_t rows = logits.shape()[0];
  Ids positions(static_cast<size_t>(rows));
  std::iota(positions.begin(), positions.end(), 0);
  const auto graph = std::make_shared<graph::Graph>("routing");
  const graph::Value scores = graph->input("logits", DType::f32, logits.shape());
  const graph::Value shift = graph->input("bias", DType::f32, bias.shape());
  const graph::Value at = graph->input("positions", DType::i32, Shape{1, rows});
  const model::ExpertChoice choice = model::choose_experts(experts, scores, shift, at);
  graph->output("experts", choice.experts);
  graph->output("shares", choice.shares);
  const auto engine = c.topic().engine();
  const std::vector<graph::BufferRef> given = {
      engine->upload(logits), engine->upload(bias),
      engine->upload(Tensor::from(Shape{1, rows}, positions))};
  const auto made = engine->compile(graph)->run(given);
  const Tensor got = made[0]->read(), shares = made[1]->read();
  for (int64_t row = 0; row < rows; ++row) {
    std::map<int32_t, float> wanted;
    const Ids own = family_ids(c.array("experts").row(row));
    for (size_t k = 0; k < own.size(); ++k)
      wanted[own[k]] = c.array("weights").row(row).as<float>()[k];
    for (int64_t k = 0; k < experts.per_token; ++k) {
      const int32_t expert = got.row(row).as<int32_t>()[static_cast<size_t>(k)];
      c.check(wanted.contains(expert), fmt::format("row {} goes to expert {}", row, expert));
      c.close(c.topic().tolerance(entry), shares.row(row).as<float>()[static_cast<size_t>(k)],
              wanted[expert], fmt::format("share of expert {} in row {}", expert, row));
    }
  }
}

} // namespace

void run_llada22(Topic& topic) {
  for (const Json& entry : topic.list("cases")) {
    topic.run(entry, [&](Case& c) {
      if (entry.at("kind") == "block_routing")
        run_routing(c, entry);
      else
        run_rule(c, topic.cases(), entry);
    });
  }
}

} // namespace dllm::parity
