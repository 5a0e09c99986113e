// families/sdar, sdar_moe: logits, and block_diffusion_generate call by call. Arrays <case>.{prompt
// i32(1, P), trace i32(S, 1, block): the block before every denoising call, block_start i32(S),
// max_probability f32(S, 1, block), first_logits f32(1, block, V), final i32(1, T)}; the calls that
// store a finished block are not among them.

#include "base/error.h"
#include "handlers.h"
#include "handlers/models/family_cases.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::parity {
namespace {

constexpr const char* kOrders[][2] = {{"low_confidence_dynamic", "dynamic"},
                                      {"low_confidence_static", "static"},
                                      {"sequential", "sequential"}};

Options sdar_options(const Json& entry) {
  const Json& p = entry.at("parameters");
  Options options(decode::decoder_schema("sdar"));
  for (const auto& order : kOrders) {
    if (p.at("remasking_strategy") == order[0]) options.set_text("remasking", order[1]);
  }
  options.set_i64("block_length", p.at("block_length").get<int64_t>());
  options.set_i64("steps_per_block", p.at("denoising_steps").get<int64_t>());
  options.set_f64("threshold", p.value("confidence_threshold", 0.85));
  return options;
}

void run_sdar_decoding(Case& c, const Json& entry, model::Model& model, decode::Decoder& decoder) {
  const Tensor &trace = c.array("trace"), &final = c.array("final");
  const Ids prompt = family_ids(c.array("prompt"));
  Options slot(decode::request_schema());
  // The reference decodes its last block whole.
  slot.set_i64("gen_length", final.shape()[1] - static_cast<int64_t>(prompt.size()));
  slot.set_text("stop", list_text(case_ids(entry.at("stop_ids"))));
  decoder.add(prompt, {}, slot);
  const int64_t block = trace.shape()[2];
  const double tolerance = entry.at("atol_max_probability").get<double>();
  // The reference looks for a stop token in finished blocks; ours ends as soon as one has nothing
  // open before it.
  for (int64_t call = 0; call < trace.shape()[0] && decoder.request(0).active(); ++call) {
    const int64_t begin = c.array("block_start").as<int32_t>()[static_cast<size_t>(call)];
    compare_canvas(c, decoder, begin, family_ids(trace.row(call)), call);
    if (call == 0) {
      const Tensor all = span_logits(model, decoder.request(0).ids, {block, 0, false});
      c.close({entry.at("atol_first_logits").get<double>(), 0}, all.rows(begin, begin + block),
              c.array("first_logits").row(0), "first_logits");
    }
    decoder.predict();
    const Batch said = decoder.statistics(0);
    const auto positions = said.at("positions").as<int32_t>();
    for (size_t i = 0; i < positions.size(); ++i) {
      const auto want = c.array("max_probability").row(call).row(0).as<float>();
      c.close({tolerance, 0}, said.at("max_probability").as<float>()[i],
              want[static_cast<size_t>(positions[i] - begin)],
              fmt::format("probability of position {} in call {}", positions[i], call));
    }
    decoder.step();
  }
  const decode::Request& done = decoder.request(0);
  c.check(!done.active(), "the request is not done after the reference's calls");
  // Behind a block with a stop token the reference leaves masks.
  const Ids want = family_ids(final), stop = case_ids(entry.at("stop_ids"));
  const auto end = std::find_first_of(want.begin() + static_cast<std::ptrdiff_t>(prompt.size()),
                                      want.end(), stop.begin(), stop.end());
  c.equal(done.finish == decode::Finish::stopped, end != want.end(),
          "whether a stop token ended it");
  const auto length = end == want.end() ? done.length() : end + 1 - want.begin();
  c.equal(text_of({done.ids.begin(), done.ids.begin() + length}),
          text_of({want.begin(), want.begin() + length}), "final");
  c.equal(done.evaluations, entry.at("denoise_calls").get<int64_t>(), "denoise_calls");
}

} // namespace

void run_sdar(Topic& topic) {
  const std::shared_ptr<model::Model> model = topic.model(topic.cases().at("model"));
  for (const Json& entry : topic.list("cases")) {
    if (entry.at("kind") == "forward") {
      for (const char* mode : {"full", "blockcausal"})
        topic.run(entry.at("name").get<std::string>() + "." + mode, [&](Case& c) {
          c.set_prefix(entry.at("name").get<std::string>());
          const bool full = std::string_view(mode) == "full";
          const Json settings =
              full ? Json{{"attention", "bidirectional"}}
                   : Json{{"attention", "block_causal"}, {"block_length", entry.at("block")}};
          compare_forward(c, *model, entry, settings, std::string(mode) + ".logits");
        });
      continue;
    }
    topic.run(entry, [&](Case& c) {
      decode::Decoder decoder(model, sdar_options(entry));
      run_sdar_decoding(c, entry, *model, decoder);
    });
  }
}

} // namespace dllm::parity
