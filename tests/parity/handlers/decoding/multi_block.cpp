// torch/multi_block (full attention, none or a delayed cache) and castlehill/multi_block
// (block-causal attention behind a prompt that is one block): canvases at every forward pass.
// Arrays <case>.{prompt i32(1, P), trace i32(calls + 1, T), final, entropy f32(calls, T), argmax
// (calls, T; -1: not computed), first_logits}; mask_* i32(T, T); entropy_rule.*.
//
// Cases that set `shift` are of the full-attention set; there the unshifted model (LLaDA) also
// decides the surest position of all.

#include "base/error.h"
#include "decode/decoder/decoder.h"
#include "graph/ops.h"
#include "handlers.h"
#include "model/model.h"
#include "runner.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::parity {
namespace {

using Ids = std::vector<int32_t>;

std::string text_of_span(std::span<const int32_t> ids) {
  return fmt::format("{}", fmt::join(ids, " "));
}

bool is_full_attention(const Json& entry) {
  return entry.contains("shift");
}

void refuse_unknown(Case& c, const Json& entry) {
  static const std::vector<std::string> known = {
      "max_new_tokens", "gen_length",        "block_size",          "block_length",
      "threshold",      "entropy_threshold", "block_add_threshold", "decoded_token_threshold",
      "early_stop",     "eos_token_id",      "cache_delay_iter",    "refresh_interval",
      "steps"};
  for (const auto& [key, value] : entry.at("parameters").items()) {
    if (std::find(known.begin(), known.end(), key) == known.end())
      c.skip(fmt::format("parameter {} = {} is not supported yet", key, value.dump()));
  }
}

Options decoder_options(const Json& entry, int64_t generated) {
  const Json& p = entry.at("parameters");
  const bool full = is_full_attention(entry);
  // The plain loop over blocks: the next one begins when the last is done.
  const bool sequential = p.contains("block_length");
  Json values = {{"policy", "multi_block"},
                 {"gen_length", generated},
                 {"block_length", sequential ? p.at("block_length") : p.at("block_size")},
                 {"entropy_threshold",
                  p.value(p.contains("threshold") ? "threshold" : "entropy_threshold", 0.9)},
                 {"block_add", sequential ? 1.0 : p.value("block_add_threshold", 0.5)},
                 {"block_activate", sequential ? 1.0 : p.value("decoded_token_threshold", 0.5)},
                 {"eos", p.value("early_stop", false) ? p.at("eos_token_id") : Json(-1)},
                 {"attention", full ? "bidirectional" : "block_causal"},
                 {"shift", !full || entry.at("shift").get<bool>() ? 1 : 0},
                 {"surest", full && !entry.at("shift").get<bool>()},
                 {"compat", !full                           ? "castlehill"
                            : entry.at("shift").get<bool>() ? "d3llm-dream"
                                                            : "d3llm-llada"},
                 {"suppress_mask", false}};
  if (p.contains("cache_delay_iter")) {
    values["cache"] = "delayed";
    values["cache_delay"] = p.at("cache_delay_iter");
    values["cache_refresh"] = p.at("refresh_interval");
  }
  Options options(decode::decoder_schema("multi_block"));
  options.set_json(values);
  return options;
}

void compare_first_logits(Case& c, model::Model& model) {
  Batch batch;
  const Tensor first = c.array("trace").row(0);
  batch.set("ids", Tensor::from(Shape{1, first.count()},
                                Ids(first.as<int32_t>().begin(), first.as<int32_t>().end())));
  Options options(model::forward_schema());
  options.set_json(Json{{"attention", "bidirectional"}, {"shift", 0}});
  const double absolute = c.topic().cases().value("atol_first_logits", 1e-4);
  c.close({absolute, 0}, model::forward(model, batch, options).at("logits"),
          c.array("first_logits"), "first_logits");
}

// Entropies and likeliest tokens of the positions that were asked for, where the reference computed
// them.
void compare_said(Case& c, const Batch& said, int64_t call) {
  const Tensor &entropy = c.array("entropy"), &argmax = c.array("argmax");
  const double absolute = c.topic().cases().value("atol_entropy", 2e-3);
  const auto positions = said.at("positions").as<int32_t>();
  for (size_t i = 0; i < positions.size(); ++i) {
    const auto at = static_cast<size_t>(call * entropy.shape()[1] + positions[i]);
    const std::string where = fmt::format("call {} position {}", call, positions[i]);
    c.check(argmax.as<int32_t>()[at] >= 0, "the reference did not compute " + where);
    c.close({absolute, 0}, static_cast<double>(said.at("entropy").as<float>()[i]),
            static_cast<double>(entropy.as<float>()[at]), "entropy of " + where);
    c.equal(said.at("argmax").as<int32_t>()[i], argmax.as<int32_t>()[at], "argmax of " + where);
  }
}

// The first call in which the reference attends to some keys twice: its cache holds more tokens
// than there are before the window. All calls when there is none.
int64_t calls_before_overlap(Case& c, int64_t calls) {
  const auto held = c.array("cache_tokens").as<int32_t>();
  const auto begin = c.array("input_start").as<int32_t>();
  for (int64_t call = 0; call < calls; ++call) {
    const auto at = static_cast<size_t>(call);
    if (held[at] > begin[at]) return call;
  }
  return calls;
}

void run_multi_block_case(Case& c, const Json& entry) {
  refuse_unknown(c, entry);
  const std::shared_ptr<model::Model> model = c.topic().model(entry.at("model").get<std::string>());
  model->set_mask_token(entry.at("mask_id").get<int64_t>());
  const Tensor& trace = c.array("trace");
  const Tensor& prompt = c.array("prompt");
  if (c.has("first_logits") && is_full_attention(entry)) compare_first_logits(c, *model);
  decode::Decoder decoder(model, decoder_options(entry, trace.shape()[1] - prompt.count()));
  decoder.add(prompt.row(0).as<int32_t>(), {}, Options(decode::request_schema()));
  const decode::Request& slot = decoder.request(0);
  const int64_t calls = trace.shape()[0] - 1;
  const bool overlaps = entry.value("cache_overlaps_input", false);
  const int64_t comparable = overlaps ? calls_before_overlap(c, calls) : calls;
  int64_t call = 0;
  for (; call < comparable && slot.active(); ++call) {
    c.equal(text_of_span(slot.ids), text_of_span(trace.row(call).as<int32_t>()),
            fmt::format("canvas at call {}", call));
    decoder.predict();
    compare_said(c, decoder.statistics(0), call);
    decoder.step();
  }
  c.equal(call, comparable, "calls");
  if (overlaps) {
    // What the last of these calls decided is the canvas of the next one.
    c.check(comparable < calls, "the reference attends to no key twice");
    return c.equal(text_of_span(slot.ids), text_of_span(trace.row(call).as<int32_t>()),
                   "canvas before the overlap");
  }
  c.check(!slot.active(), "the reference was done and ours was not");
  c.equal(slot.evaluations, entry.at("model_calls").get<int64_t>(), "model_calls");
  c.equal(text_of_span(slot.ids), text_of_span(c.array("final").as<int32_t>()), "final");
}

// A window's rows are those of its queries.
void run_mask(Case& c, const Json& entry) {
  const decode::AttentionSpan span{entry.at("block_size").get<int64_t>(),
                                   entry.at("prompt_length").get<int64_t>(), true};
  const auto compare = [&](const std::string& name, int64_t first) {
    c.set_prefix("");
    const Tensor& want = c.array(name);
    Tensor got(DType::i32, want.shape());
    for (int64_t i = 0; i < want.shape()[0]; ++i) {
      for (int64_t j = 0; j < want.shape()[1]; ++j)
        got.mutable_as<int32_t>()[static_cast<size_t>(i * want.shape()[1] + j)] =
            j < span.limit(first + i) ? 1 : 0;
    }
    c.equal(got, want, name);
  };
  const std::string name = entry.at("name").get<std::string>();
  compare(name, 0);
  const Json& window = entry.at("window");
  if (!window.is_null()) compare(name + ".window", window.at("start").get<int64_t>());
}

// The entropy of given logits, by the head that decoders use.
void run_entropy_rule(Case& c) {
  c.set_prefix("entropy_rule");
  const Tensor& logits = c.array("logits"); // (1, n, vocab)
  const int64_t n = logits.shape()[1], vocab = logits.shape()[2];
  auto graph = std::make_shared<graph::Graph>("entropy");
  graph::TokenStatisticsInputs in;
  in.x = graph->input("x", DType::f32, Shape{n, vocab});
  in.weight = graph->input("weight", DType::f32, Shape{vocab, vocab});
  in.count = graph->input("count", DType::i32, Shape{});
  in.temperature = graph->input("temperature", DType::f32, Shape{n});
  in.uniform = graph->input("uniform", DType::f32, Shape{n});
  const graph::TokenStatistics s = graph::token_statistics(in, 1);
  graph->output("entropy", s.entropy);
  graph->output("argmax", s.argmax);
  const auto count = static_cast<size_t>(n);
  std::vector<float> identity(static_cast<size_t>(vocab * vocab), 0.0f);
  for (int64_t i = 0; i < vocab; ++i) identity[static_cast<size_t>(i * vocab + i)] = 1;
  Batch feed;
  feed.set("x", Tensor::from(Shape{n, vocab}, std::vector<float>(logits.as<float>().begin(),
                                                                 logits.as<float>().end())));
  feed.set("weight", Tensor::from(Shape{vocab, vocab}, identity));
  feed.set("count", Tensor::scalar(static_cast<int32_t>(n)));
  feed.set("temperature", Tensor::from(Shape{n}, std::vector<float>(count, 0.0f)));
  feed.set("uniform", Tensor::from(Shape{n}, std::vector<float>(count, 0.0f)));
  const auto engine = c.topic().engine();
  const auto program = engine->compile(std::move(graph));
  std::vector<graph::BufferRef> inputs;
  for (const graph::GraphInput& input : program->graph().inputs())
    inputs.push_back(engine->upload(feed.at(input.name)));
  const auto made = program->run(inputs, nullptr);
  const auto flat = [&](const std::string& name) { return c.array(name).row(0); };
  c.close({1e-5, 1e-5}, made[0]->read(), flat("entropy"), "entropy");
  c.equal(made[1]->read(), flat("tokens"), "tokens");
}

} // namespace

void run_multi_block(Topic& topic) {
  for (const Json& entry : topic.list("masks"))
    topic.run(entry, [&](Case& c) { run_mask(c, entry); });
  if (topic.has("entropy_rule.logits")) topic.run(std::string("entropy_rule"), run_entropy_rule);
  for (const Json& entry : topic.list("cases"))
    topic.run(entry, [&](Case& c) { run_multi_block_case(c, entry); });
}

} // namespace dllm::parity
