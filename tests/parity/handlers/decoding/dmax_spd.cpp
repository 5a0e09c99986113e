// torch/dmax_spd: soft parallel decoding as its authors run it. Arrays: select.*.{mask, max_prob,
// decode} (1, n); <case>.{trace i32(steps, T), step_block_start, step_break (steps), final (1, n),
// step<k>.logits f32(1, block, V), step<k>.next_embeds f32(1, block, hidden)}.

#include "base/error.h"
#include "decode/decoder/decoder.h"
#include "decode/policies/spd.h"
#include "graph/ops.h"
#include "handlers.h"
#include "model/network/builder.h"
#include "runner.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace dllm::parity {
namespace {

using Ids = std::vector<int32_t>;

std::string text_of_span(std::span<const int32_t> ids) {
  return fmt::format("{}", fmt::join(ids, " "));
}

void run_select(Case& c, const Json& entry) {
  const auto mask = c.array("mask").as<int32_t>();
  const std::vector<uint8_t> open(mask.begin(), mask.end());
  const std::vector<uint8_t> got = decode::spd_decode_set(open, c.array("max_prob").as<float>(),
                                                          entry.at("threshold").get<float>());
  const std::vector<int32_t> numbers(got.begin(), got.end());
  c.equal(text_of_span(numbers), text_of_span(c.array("decode").as<int32_t>()), "decode");
}

Options decoder_options(const Json& entry) {
  const auto block = entry.at("block_length").get<int64_t>();
  const auto prompt = static_cast<int64_t>(entry.at("prompt").size());
  const int64_t whole = prompt + entry.at("gen_length").get<int64_t>();
  Options options(decode::decoder_schema("spd"));
  options.set_json(Json{{"policy", "spd"},
                        {"block_length", block},
                        {"steps", block},
                        {"threshold", entry.at("threshold")},
                        {"eos", entry.at("early_stop").get<bool>() ? entry.at("eos_id") : Json(-1)},
                        {"gen_length", (whole + block - 1) / block * block - prompt},
                        {"compat", "dmax"}});
  return options;
}

// What was recorded of the block's rows in one step: logits and the inputs of the next step.
void compare_rows(Case& c, const std::string& step, const Batch& said, int64_t block_begin,
                  Tolerance tolerance) {
  const Tensor& logits = c.array(step + ".logits"); // (1, block, vocab)
  const int64_t vocab = logits.shape()[2];
  const auto positions = said.at("positions").as<int32_t>();
  for (size_t i = 0; i < positions.size(); ++i) {
    const auto row = logits.as<float>().subspan(
        static_cast<size_t>((positions[i] - block_begin) * vocab), static_cast<size_t>(vocab));
    const auto top = std::max_element(row.begin(), row.end());
    double sum = 0;
    for (const float z : row) sum += std::exp(static_cast<double>(z) - static_cast<double>(*top));
    c.equal(said.at("argmax").as<int32_t>()[i], top - row.begin(), "argmax of " + step);
    c.close(tolerance, static_cast<double>(said.at("max_probability").as<float>()[i]), 1 / sum,
            "probability of " + step);
  }
}

// Input embeddings (1, block, hidden) of the block after a step.
Tensor next_embeddings(model::Model& model, const decode::Request& slot, const Batch& said,
                       int64_t begin, int64_t block) {
  std::vector<int32_t> ids(slot.ids.begin() + begin, slot.ids.begin() + begin + block), mixed(ids);
  std::vector<float> weights(ids.size(), 0.0f);
  std::vector<uint8_t> on(ids.size(), 0);
  const auto positions = said.at("positions").as<int32_t>();
  for (size_t i = 0; i < positions.size(); ++i) {
    if (slot.is_open(positions[i])) continue;
    const auto at = static_cast<size_t>(positions[i] - begin);
    on[at] = 1;
    mixed[at] = said.at("top_ids").as<int32_t>()[i];
    weights[at] = said.at("top_probs").as<float>()[i];
  }
  auto graph = std::make_shared<graph::Graph>("mix");
  model::Builder builder(*graph, model);
  const Shape line{1, block}, wide{1, block, 1};
  model::EmbeddingMix mix;
  mix.hard = builder.embed(graph->input("ids", DType::i32, line));
  mix.ids = graph->input("mixed", DType::i32, wide);
  mix.weights = graph->input("weights", DType::f32, wide);
  mix.on = graph->input("on", DType::u8, line);
  graph->output("soft", model::embedding_mix(builder, mix));
  Batch feed;
  feed.set("ids", Tensor::from(line, ids));
  feed.set("mixed", Tensor::from(wide, mixed));
  feed.set("weights", Tensor::from(wide, weights));
  feed.set("on", Tensor::from(line, on));
  const auto program = model.engine().compile(std::move(graph));
  const auto parameters = model.params().snapshot();
  std::vector<graph::BufferRef> inputs;
  size_t next = 0;
  for (const graph::GraphInput& input : program->graph().inputs())
    inputs.push_back(input.is_parameter ? parameters[next++]
                                        : model.engine().upload(feed.at(input.name)));
  return program->run(inputs, nullptr)[0]->read();
}

void run_trace(Case& c, const Json& entry) {
  const std::shared_ptr<model::Model> model = c.topic().model(entry.at("model").get<std::string>());
  model->set_mask_token(entry.at("mask_id").get<int64_t>());
  const auto block = entry.at("block_length").get<int64_t>();
  const Tensor &trace = c.array("trace"), &starts = c.array("step_block_start"),
               &breaks = c.array("step_break");
  const Tolerance tolerance = c.topic().tolerance(entry, {1e-4, 0});
  decode::Decoder decoder(model, decoder_options(entry));
  decoder.add(entry.at("prompt").get<Ids>(), {}, Options(decode::request_schema()));
  const decode::Request& slot = decoder.request(0);
  int64_t s = 0;
  for (; s < trace.shape()[0] && slot.active(); ++s) {
    const int64_t begin = slot.block_begin(), step_in_block = slot.step_in_block;
    decoder.predict();
    const Batch said = decoder.statistics(0);
    decoder.step();
    const std::string step = fmt::format("step{}", s);
    const bool ended = !slot.active() || slot.block_begin() != begin;
    c.equal(begin, starts.as<int32_t>()[static_cast<size_t>(s)], "block of " + step);
    // A block that is out of steps ends without the flag.
    if (step_in_block + 1 < block)
      c.equal(ended, breaks.as<int32_t>()[static_cast<size_t>(s)] != 0, "end after " + step);
    const auto end = static_cast<size_t>(begin + block);
    c.equal(text_of_span(std::span(slot.ids).first(end)),
            text_of_span(trace.row(s).as<int32_t>().first(end)), "canvas after " + step);
    if (!c.has(step + ".logits")) continue;
    compare_rows(c, step, said, begin, tolerance);
    if (c.has(step + ".next_embeds") && !ended)
      c.close(tolerance, next_embeddings(*model, slot, said, begin, block),
              c.array(step + ".next_embeds"), "inputs after " + step);
  }
  c.equal(s, trace.shape()[0], "steps");
  c.check(!slot.active(), "the reference was done and ours was not");
  c.equal(static_cast<int64_t>(decoder.metric(0, "nfe")), entry.at("nfe").get<int64_t>(), "nfe");
  Ids kept = slot.ids; // the reference drops every EOS
  std::erase(kept, entry.at("eos_id").get<int32_t>());
  c.equal(text_of_span(kept), text_of_span(c.array("final").as<int32_t>()), "final");
}

} // namespace

void run_dmax_spd(Topic& topic) {
  for (const Json& entry : topic.list("selection"))
    topic.run(entry, [&](Case& c) { run_select(c, entry); });
  for (const Json& entry : topic.list("cases"))
    topic.run(entry, [&](Case& c) { run_trace(c, entry); });
}

} // namespace dllm::parity
