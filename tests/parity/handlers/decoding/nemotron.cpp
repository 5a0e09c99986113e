// families/nemotron_labs_diffusion: logits under four masks, block decoding call by call (trace
// i32(S, B, block), confidence f32(S, B, block), -1 at visible positions), and self-speculation
// round by round (draft, verify i32(R, block), accepted, draft_calls i32(R)).

#include "handlers.h"
#include "handlers/models/family_cases.h"
#include "handlers/training/loss_checks.h"
#include "noise/loss/evaluate.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::parity {
namespace {

// "block": a prefix that sees what is before it, the rest sees everything.
void compare_prefix_forward(Case& c, model::Model& model, const Json& entry,
                            const std::string& mode) {
  const Tensor& ids = c.array("input_ids");
  const int64_t batch = ids.shape()[0], length = ids.shape()[1];
  const auto prefix = entry.at("prefix").get<int64_t>();
  Tensor mask(DType::u8, {1, length, length});
  for (int64_t q = 0; q < length; ++q) {
    const bool all = mode == "block" && q >= prefix;
    for (int64_t k = 0; k < length; ++k)
      mask.mutable_as<uint8_t>()[static_cast<size_t>(q * length + k)] = all || k <= q ? 1 : 0;
  }
  Batch rows;
  rows.set("ids", ids);
  rows.set("mask", mask);
  Options options(model::forward_schema());
  options.set_json(Json{{"attention", "bidirectional"}, {"shift", 0}});
  const Tensor logits = model::forward(model, rows, options).at("logits");
  for (int64_t b = 0; b < batch; ++b)
    c.close(c.topic().tolerance(entry), logits.row(b).rows(prefix, length),
            c.array(mode + ".logits").row(b), mode + ".logits");
}

void run_nemotron_forward(Topic& topic, const Json& entry, model::Model& model) {
  const auto name = entry.at("name").get<std::string>();
  for (const std::string mode : {"full", "causal", "block", "block_causal"})
    topic.run(name + "." + mode, [&](Case& c) {
      c.set_prefix(name);
      if (mode == "block" || mode == "block_causal")
        compare_prefix_forward(c, model, entry, mode);
      else
        compare_forward(c, model, entry,
                        Json{{"attention", mode == "full" ? "bidirectional" : mode}},
                        mode + ".logits");
    });
}

Options stop_slot(const Json& entry, int64_t open) {
  Options slot(decode::request_schema());
  slot.set_i64("gen_length", open);
  if (!entry.at("eos_token_id").is_null())
    slot.set_text("stop", std::to_string(entry.at("eos_token_id").get<int32_t>()));
  return slot;
}

// Decided tokens of the only request, up to the first open or stop token.
Ids tokens_before(const decode::Request& request, const Json& entry) {
  const auto open = std::find(request.states.begin(), request.states.end(), decode::State::masked);
  Ids ids(request.ids.begin(), request.ids.begin() + (open - request.states.begin()));
  if (entry.at("eos_token_id").is_null()) return ids;
  const auto stop =
      std::find(ids.begin() + request.prompt, ids.end(), entry.at("eos_token_id").get<int32_t>());
  if (stop != ids.end()) ids.erase(stop + 1, ids.end());
  return ids;
}

void run_block_row(Case& c, const Json& entry, const std::shared_ptr<model::Model>& model,
                   int64_t row, const char* cache) {
  const Json& p = entry.at("parameters");
  const Json& threshold = p.at("threshold");
  Options options(decode::decoder_schema("nemotron"));
  options.set_json(Json{{"block_length", entry.at("block_length")},
                        {"threshold", threshold.is_null() ? Json(1.0) : threshold},
                        {"causal_context", p.value("causal_context", true)},
                        {"cache", cache},
                        {"suppress_mask", false}});
  decode::Decoder decoder(model, options);
  const Ids prompt = family_ids(c.array("prompt").row(row));
  decoder.add(prompt, {}, stop_slot(entry, p.at("max_new_tokens").get<int64_t>()));
  const Tensor& trace = c.array("trace");
  const auto mask = entry.at("mask_token_id").get<int32_t>();
  const int64_t block = trace.shape()[2];
  for (int64_t call = 0; call < trace.shape()[0]; ++call) {
    const Ids want = family_ids(trace.row(call).row(row));
    // Rows of a batch wait for each other.
    if (std::find(want.begin(), want.end(), mask) == want.end()) continue;
    const int64_t begin = static_cast<int64_t>(prompt.size()) +
                          c.array("block_index").as<int32_t>()[static_cast<size_t>(call)] * block;
    if (want[0] != mask && decoder.request(0).is_open(begin)) decoder.step(); // the first token
    compare_canvas(c, decoder, begin, want, call);
    decoder.predict();
    const Batch said = decoder.statistics(0);
    const auto positions = said.at("positions").as<int32_t>();
    const Tensor confidence = c.array("confidence").row(call).row(row);
    for (size_t i = 0; i < positions.size(); ++i) {
      c.close({entry.at("atol_confidence").get<double>(), 0},
              said.at("max_probability").as<float>()[i],
              confidence.as<float>()[static_cast<size_t>(positions[i] - begin)],
              fmt::format("confidence of position {} in call {}", positions[i], call));
    }
    decoder.step();
  }
  c.check(!decoder.request(0).active(), "the request is not done after the reference's calls");
  const Ids final = family_ids(c.array("final").row(row));
  c.equal(text_of(tokens_before(decoder.request(0), entry)), text_of(final), "final");
  if (c.array("prompt").shape()[0] != 1) return;
  // Without causal context K and V of a block are stored by the first pass of the next one, and not
  // by one of their own.
  const bool stores = p.value("causal_context", true);
  c.equal(static_cast<int64_t>(decoder.metric(0, "nfe")),
          entry.at(stores ? "nfe" : "denoise_calls").get<int64_t>(), "nfe");
}

void run_speculation(Case& c, const Json& entry, const std::shared_ptr<model::Model>& model,
                     const char* cache) {
  const Json& p = entry.at("parameters");
  Options options(decode::decoder_schema("self_speculation"));
  options.set_json(Json{{"block_length", entry.at("block_length")},
                        {"threshold", p.at("threshold")},
                        {"cache", cache},
                        {"adapter", p.value("lora", false) ? "drafts" : "all"},
                        {"suppress_mask", false}});
  decode::Decoder decoder(model, options);
  const Ids prompt = family_ids(c.array("prompt")), final = family_ids(c.array("final"));
  const Tensor &draft = c.array("draft"), &verify = c.array("verify");
  // The last draft must not be cut by the end of the canvas.
  const int64_t block = draft.shape()[1], open = static_cast<int64_t>(final.size()) + block;
  decoder.add(prompt, {}, stop_slot(entry, open - static_cast<int64_t>(prompt.size())));
  decoder.step(); // the first token
  for (int64_t round = 0; round < draft.shape()[0]; ++round) {
    const auto at = static_cast<size_t>(round);
    const int64_t begin = c.array("cache_length").as<int32_t>()[at];
    for (int64_t call = 0; call < c.array("draft_calls").as<int32_t>()[at]; ++call) decoder.step();
    compare_canvas(c, decoder, begin, family_ids(draft.row(round)), round);
    decoder.predict();
    const Batch said = decoder.statistics(0);
    c.equal(text_of(family_ids(said.at("argmax"))), text_of(family_ids(verify.row(round))),
            fmt::format("verified tokens of round {}", round));
    decoder.step();
  }
  const Ids got = tokens_before(decoder.request(0), entry);
  c.equal(text_of(got), text_of(final), "final");
  c.equal(static_cast<int64_t>(decoder.metric(0, "nfe")), entry.at("nfe").get<int64_t>(), "nfe");
}

// The same checkpoint with the adapter of its drafts.
std::shared_ptr<model::Model> with_adapter(Topic& topic) {
  Options options(model::model_schema());
  options.set_json(Json{{"dtype", "f32"}, {"adapter", "linear_spec_lora"}});
  return model::load_model(topic.engine(), topic.model_folder(topic.cases().at("model")), options);
}

// The published loss divides by the masked tokens and the length of one row; the objective's own by
// the tokens.
void run_training(Case& c, const Json& entry, model::Model& model) {
  Options options(noise::objective_schema("bd3lm"));
  options.set_json(Json{{"compat", "dllm"}, {"time_per", "row"}, {"ar_weight", 1.0}});
  options.set_json(Json{{"block_length", entry.at("block")}});
  const noise::ObjectiveRef objective = noise::make_objective("bd3lm", nullptr, options);
  Batch raw;
  const int64_t rows = c.array("clean").shape()[0];
  raw.set("ids", c.array("clean"));
  raw.set("u_t", Tensor::from(Shape{rows}, entry.at("t").get<std::vector<float>>()));
  raw.set("u_mask", c.array("u_mask"));
  Batch prepared =
      objective->prepare(raw, 0, 0, noise::prepare_context(*objective, model.config()));
  const Tensor& masked = c.array("masked");
  const int64_t length = masked.shape()[1];
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < length; ++i) {
      const bool is_masked =
          prepared.at("targets").row(row).as<int32_t>()[static_cast<size_t>(i)] >= 0;
      c.equal(is_masked, masked.row(row).as<uint8_t>()[static_cast<size_t>(i)] != 0,
              fmt::format("whether token {} of row {} is masked", i, row));
    }
  }
  std::vector<float> normalizer(static_cast<size_t>(rows), 0.0f);
  normalizer[0] = entry.at("denominator").get<float>();
  prepared.set("normalizer", Tensor::from(Shape{rows}, normalizer));
  const Tolerance tolerance = c.topic().tolerance(entry);
  const noise::LossGradients got = noise::loss_gradients(model, *objective, prepared);
  check_gradients(c, got,
                  {tolerance.relative, tolerance.relative, entry.at("loss").get<double>(), {}});
  check_gradient_norms(c, got, entry.at("grad_norms"), tolerance);
}

} // namespace

void run_nemotron(Topic& topic) {
  const std::shared_ptr<model::Model> model = topic.model(topic.cases().at("model"));
  for (const Json& entry : topic.list("cases")) {
    const auto kind = entry.at("kind").get<std::string>();
    if (kind == "forward")
      run_nemotron_forward(topic, entry, *model);
    else if (kind == "training")
      topic.run(entry, [&](Case& c) { run_training(c, entry, *model); });
    else
      topic.run(entry, [&](Case& c) {
        for (const char* cache : {"exact", "none"}) {
          if (kind == "decode_linear_spec") {
            const bool adapted = entry.at("parameters").value("lora", false);
            if (adapted && std::string(cache) == "none")
              continue; // refused: drafts read K and V without it
            run_speculation(c, entry, adapted ? with_adapter(topic) : model, cache);
            continue;
          }
          for (int64_t row = 0; row < c.array("prompt").shape()[0]; ++row)
            run_block_row(c, entry, model, row, cache);
        }
      });
  }
}

} // namespace dllm::parity
