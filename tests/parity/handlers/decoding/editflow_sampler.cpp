// torch/editflow_sampler: tau-leap decoding of edit flows, driven by recorded uniforms. Every
// canvas must be the same.

#include "decode/decoder/decoder.h"
#include "handlers.h"
#include "handlers/decoding/sampler_case.h"
#include "handlers/models/reference_names.h"

#include <nlohmann/json.hpp>

#include <cmath>

namespace dllm::parity {
namespace {

// "uniforms": of a step, of the three decisions (whether a token is edited, whether that deletes
// it, whether one is inserted), of a row of the canvas.
class RecordedEdits final : public decode::RandomSource {
public:
  explicit RecordedEdits(const Json& steps) : steps_(steps) {}
  float uniform(const decode::Request& request, int64_t position, int word) const override {
    if (word < 1 || word > 3) return 0.5f;
    return steps_.at(static_cast<size_t>(request.steps))
        .at(static_cast<size_t>(word - 1))
        .at(static_cast<size_t>(position))
        .get<float>();
  }

private:
  const Json& steps_;
};

void run_edits(Case& c, const Json& entry) {
  const Json& params = entry.at("params");
  const std::shared_ptr<model::Model> model = sampler_model(c, entry);
  Options options(decode::decoder_schema("editflow"));
  options.set_str("policy", "editflow");
  const auto scheduler =
      entry.value("scheduler", params.value("scheduler", "LinearKappaScheduler"));
  options.set_str("schedule", reference_schedule(scheduler, entry, "none")->name());
  options.set_i64("steps", std::llround(std::ceil(1 / params.at("tau").get<double>() - 1e-9)));
  options.set_i64("gen_length", params.at("mask_length").get<int64_t>());
  options.set_f64("temperature", params.at("temperature").get<double>());
  options.set_i64("edit_prompt", params.value("edit_prompt", false));
  options.set_i64("time_independent", params.value("time_independent", true));
  options.set_i64("keep_masks", true);
  options.set_i64("suppress_mask", false);
  decode::Decoder decoder(model, options);
  decoder.set_random_source(std::make_shared<RecordedEdits>(entry.at("uniforms")));
  Ids prompt = entry.at("input").get<Ids>();
  const auto bos = entry.at("bos_id").get<int32_t>();
  if (prompt.empty() || prompt[0] != bos) prompt.insert(prompt.begin(), bos);
  decoder.start(prompt, 0);
  const Json& trace = entry.at("trace");
  c.equal(text_of(decoder.request(0).ids), text_of(trace.at(0).get<Ids>()), "start");
  for (size_t step = 1; step < trace.size(); ++step) {
    decoder.step();
    c.equal(text_of(decoder.request(0).ids), text_of(trace.at(step).get<Ids>()),
            "canvas after step " + std::to_string(step));
  }
  c.check(!decoder.request(0).active(), "done after the last step");
  c.equal(decoder.request(0).evaluations, entry.at("nfe").get<int64_t>(), "nfe");
}

} // namespace

void run_editflow_sampler(Topic& topic) {
  for (const Json& entry : topic.list("cases"))
    topic.run(entry, [&](Case& c) { run_edits(c, entry); });
}

} // namespace dllm::parity
