// families/wedlm: the published decoder call by call. Arrays <case>.{prompt i32(1, P), input_ids,
// positions i32(S, W): as given to the model, -1 unused, observed, committed i32(S), entropy f32(S,
// W): of the masks, first_logits f32(w, V), final}.

#include "handlers.h"
#include "handlers/models/family_cases.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::parity {
namespace {

Options wedlm_options(const Json& entry) {
  const Json& p = entry.at("parameters");
  const Json& threshold = p.at("entropy_threshold");
  Options options(decode::decoder_schema("wedlm"));
  options.set_json(Json{{"window", p.at("window")},
                        {"entropy_threshold", threshold.is_null() ? Json(0.0) : threshold},
                        {"position_penalty", p.at("pos_penalty_factor")},
                        {"suppress_mask", false}});
  return options;
}

// Tokens that the reference gives to the model are on our canvas, and the masks are as uncertain.
void compare_wedlm_call(Case& c, decode::Decoder& decoder, const Json& entry, int64_t call) {
  const Tensor given = c.array("input_ids").row(call), at = c.array("positions").row(call);
  const Ids ids = family_ids(given), positions = family_ids(at);
  for (size_t i = 0; i < ids.size() && positions[i] >= 0; ++i) {
    c.equal(decoder.request(0).ids[static_cast<size_t>(positions[i])], ids[i],
            fmt::format("token at {} in call {}", positions[i], call));
  }
  decoder.predict();
  const Batch said = decoder.statistics(0);
  const auto entropy = said.at("entropy").as<float>();
  const auto wanted = c.array("entropy").row(call).as<float>();
  for (size_t i = 0; i < entropy.size(); ++i) {
    c.close({entry.at("atol_entropy").get<double>(), 0}, entropy[i], wanted[i],
            fmt::format("entropy of mask {} in call {}", i, call));
  }
  decoder.step();
}

void run_wedlm_case(Case& c, const Json& entry, const std::shared_ptr<model::Model>& model,
                    const char* cache) {
  Options options = wedlm_options(entry);
  options.set_text("cache", cache);
  decode::Decoder decoder(model, options);
  const Ids prompt = family_ids(c.array("prompt")), final = family_ids(c.array("final"));
  const Tensor& positions = c.array("positions");
  int64_t length = 0; // with the masks that the reference appends behind the last token
  for (const int32_t position : positions.as<int32_t>())
    length = std::max<int64_t>(length, position + 1);
  const auto begin = static_cast<int64_t>(prompt.size());
  Options slot(decode::request_schema());
  slot.set_i64("gen_length", length + entry.at("parameters").at("window").get<int64_t>() - begin);
  slot.set_text("stop", list_text(case_ids(entry.at("stop_ids"))));
  decoder.add(prompt, {}, slot);
  Ids canvas = decoder.request(0).ids;
  canvas.resize(prompt.size() + static_cast<size_t>(c.array("first_logits").shape()[0]));
  const Tensor logits = span_logits(*model, canvas, {1, 0, false});
  c.close({entry.at("atol_first_logits").get<double>(), 0},
          logits.rows(begin, static_cast<int64_t>(canvas.size())), c.array("first_logits"),
          "first_logits");
  // The last call of the reference commits what is filled; a stop token ends ours before it.
  for (int64_t call = 0; call < positions.shape()[0] && decoder.request(0).active(); ++call)
    compare_wedlm_call(c, decoder, entry, call);
  const Ids& ids = decoder.request(0).ids;
  const auto first = ids.begin() + begin;
  c.equal(text_of({first, first + static_cast<int64_t>(final.size())}), text_of(final), "final");
}

} // namespace

void run_wedlm(Topic& topic) {
  const std::shared_ptr<model::Model> model = topic.model(topic.cases().at("model"));
  for (const Json& entry : topic.list("cases"))
    topic.run(entry, [&](Case& c) {
      for (const char* cache : {"exact", "none"}) run_wedlm_case(c, entry, model, cache);
    });
}

} // namespace dllm::parity
