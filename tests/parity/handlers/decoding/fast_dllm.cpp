// torch/fast_dllm: NVlabs' loops, call by call. Arrays <case>.{prompt i32(1, P), trace i32(S+1, T),
// confidence f32(S, T), step_kind, block i32(S), first_logits, cached_logits f32(1, W, V)}; -1 in
// confidence: not computed. step_kind 2: window on a prefix cache, 3: block on a dual one.

#include "handlers.h"
#include "handlers/decoding/sampler_case.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace dllm::parity {
namespace {

std::string cache_of(Case& c) {
  const auto kinds = c.array("step_kind").as<int32_t>();
  const auto holds = [&](int32_t kind) {
    return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
  };
  if (holds(3)) return "dual";
  return holds(1) || holds(2) ? "prefix" : "none";
}

Options options_of(Case& c, const Json& entry) {
  const Json& p = entry.at("parameters");
  const bool dream = p.contains("alg");
  const std::string cache = cache_of(c);
  std::string policy = "low_confidence";
  Json own{{"plan", "even"}};
  if (p.contains("threshold")) {
    policy = "threshold";
    own = {{"threshold", p.at("threshold")}, {"budget", dream && cache == "none"}};
  } else if (dream) {
    policy = "dream";
    own = {{"alg", p.at("alg")}, {"plan", "times"}};
  }
  Options options(decode::decoder_schema(policy));
  options.set_json(own);
  const int64_t length = p.contains("gen_length") ? p.at("gen_length").get<int64_t>()
                                                  : p.at("max_new_tokens").get<int64_t>();
  options.set_json(Json{{"gen_length", length},
                        {"block_length", p.value("block_length", int64_t{0})},
                        {"steps", p.at("steps")},
                        {"temperature", p.value("temperature", 0.0)},
                        {"attention", "bidirectional"},
                        {"shift", entry.at("shift").get<bool>() ? 1 : 0},
                        {"cache", cache},
                        {"suppress_mask", false}});
  return options;
}

// What was said of the positions we asked for, before anything is decided. Of the call whose logits
// are stored also the entropy.
void compare_call(Case& c, const decode::Decoder& decoder, const Json& entry, int64_t call) {
  const Batch said = decoder.statistics(0);
  const auto positions = said.at("positions").as<int32_t>();
  const auto probability = said.at("max_probability").as<float>();
  const Tensor want = c.array("confidence").row(call);
  const double absolute = c.topic().cases().value("atol_confidence", 2e-4);
  for (size_t i = 0; i < positions.size(); ++i) {
    c.close({absolute, 0}, probability[i], want.as<float>()[static_cast<size_t>(positions[i])],
            fmt::format("confidence of position {} in call {}", positions[i], call));
  }
  const Json stored = entry.value("cached_logits_step", Json());
  if (!stored.is_number() || stored.get<int64_t>() != call) return;
  const Tensor& logits = c.array("cached_logits"); // (1, window, vocab)
  const int64_t begin = c.array("input_start").as<int32_t>()[static_cast<size_t>(call)];
  const int64_t vocab = logits.shape()[2], shift = entry.at("shift").get<bool>() ? 1 : 0;
  for (size_t i = 0; i < positions.size(); ++i) {
    const int64_t row = std::max<int64_t>(positions[i] - shift - begin, 0);
    const auto values =
        logits.as<float>().subspan(static_cast<size_t>(row * vocab), static_cast<size_t>(vocab));
    double sum = 0, weighted = 0;
    const float most = *std::max_element(values.begin(), values.end());
    for (const float x : values)
      sum += std::exp(x - most), weighted += (x - most) * std::exp(x - most);
    c.close({10 * absolute, 0}, said.at("entropy").as<float>()[i], std::log(sum) - weighted / sum,
            fmt::format("entropy of position {} in call {}", positions[i], call));
  }
}

Ids row_of(const Tensor& rows, int64_t row) {
  const Tensor one = rows.row(row);
  return {one.as<int32_t>().begin(), one.as<int32_t>().end()};
}

// No position of the block that this call works on is open.
bool is_idle(Case& c, const Json& entry, size_t prompt, int64_t call) {
  const Ids canvas = row_of(c.array("trace"), call);
  const Json& p = entry.at("parameters");
  const auto length = p.value("block_length", static_cast<size_t>(canvas.size() - prompt));
  const auto block = static_cast<size_t>(c.array("block").as<int32_t>()[static_cast<size_t>(call)]);
  const auto first = canvas.begin() + static_cast<std::ptrdiff_t>(prompt + block * length);
  return std::find(first, first + static_cast<std::ptrdiff_t>(length),
                   entry.at("mask_id").get<int32_t>()) ==
         first + static_cast<std::ptrdiff_t>(length);
}

void run_fast_dllm_case(Case& c, const Json& entry) {
  const std::shared_ptr<model::Model> model = sampler_model(c, entry);
  const Ids prompt = row_of(c.array("prompt"), 0);
  decode::Decoder decoder(model, options_of(c, entry));
  decoder.start(prompt, 0);
  const Tensor& trace = c.array("trace");
  const auto calls = entry.at("model_calls").get<int64_t>();
  if (c.has("first_logits")) {
    Batch batch;
    batch.set("ids", Tensor::from(Shape{1, trace.shape()[1]}, row_of(trace, 0)));
    Options options(model::forward_schema());
    options.set_json(Json{{"attention", "bidirectional"}, {"shift", 0}});
    c.close({c.topic().cases().value("atol_first_logits", 1e-4), 0},
            model::forward(*model, batch, options).at("logits"), c.array("first_logits"),
            "first_logits");
  }
  // With a threshold the published loops run the model once more on a block whose last position
  // the filling forward has decided: a call without an open position, which changes nothing.
  int64_t idle = 0;
  for (int64_t call = 0; call < calls; ++call) {
    if (is_idle(c, entry, prompt.size(), call)) {
      ++idle;
      continue;
    }
    if (!decoder.request(0).active()) break;
    c.equal(text_of(decoder.request(0).ids), text_of(row_of(trace, call)),
            fmt::format("canvas of call {}", call));
    c.equal(decoder.request(0).block, c.array("block").as<int32_t>()[static_cast<size_t>(call)],
            fmt::format("block of call {}", call));
    decoder.predict();
    compare_call(c, decoder, entry, call);
    decoder.step();
  }
  c.check(!decoder.request(0).active(), fmt::format("not done after {} calls", calls));
  c.equal(text_of(decoder.request(0).ids), text_of(row_of(trace, calls)), "final");
  c.equal(static_cast<int64_t>(decoder.metric(0, "nfe")), calls - idle, "model calls");
}

} // namespace

void run_fast_dllm_loops(Topic& topic) {
  for (const Json& entry : topic.list("cases"))
    topic.run(entry, [&](Case& c) { run_fast_dllm_case(c, entry); });
}

} // namespace dllm::parity
