// FastdLLMLLaDASampler, FastdLLMDreamSampler: block-wise decoding without cache, with a prefix or a
// dual cache, by quota, threshold or factor (ZHZisZZ/dllm).

#include "handlers/decoding/samplers.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::parity {
namespace {

// The policy of a case and its own options.
struct UnmaskingRule {
  std::string policy;
  Json options;
};

UnmaskingRule rule_of(Case& c, const Json& params, bool dream, bool cached) {
  const auto on = [&](const char* key) { return !is_off(params.value(key, Json())); };
  if (dream) {
    const auto alg = params.at("alg").get<std::string>();
    if (alg == "confidence_threshold") {
      return {
          "threshold",
          {{"threshold", params.at("threshold")}, {"budget", !cached}, {"confidence", "shaped"}}};
    }
    // The whole-canvas sampler follows the schedule, the block-wise one Dream's own quotas.
    return {"dream", {{"alg", alg}, {"plan", cached ? "times" : "schedule"}}};
  }
  if (params.value("remasking", "low_confidence") != "low_confidence")
    c.skip("remasking " + params.at("remasking").get<std::string>() + " is not supported yet");
  if (on("factor")) return {"factor", {{"factor", params.at("factor")}}};
  if (on("threshold")) return {"threshold", {{"threshold", params.at("threshold")}}};
  return {"low_confidence", Json::object()};
}

// The cached model of the reference takes no padding mask: a shorter row sees the end tokens that
// fill it up. They are given tokens behind the open ones.
void add_row(decode::Decoder& decoder, const Json& entry, const SamplerRow& row, int64_t width) {
  Ids canvas = row.canvas;
  std::vector<uint8_t> fixed(canvas.size(), 1);
  canvas.resize(static_cast<size_t>(row.length), entry.at("mask_id").get<int32_t>());
  fixed.resize(canvas.size(), 0);
  canvas.resize(static_cast<size_t>(width), entry.at("eos_id").get<int32_t>());
  fixed.resize(canvas.size(), 1);
  Options options(decode::request_schema());
  options.set_i64("prompt_length", static_cast<int64_t>(row.canvas.size()));
  decoder.add(canvas, fixed, options);
}

} // namespace

void run_fast_dllm(Case& c, const Json& entry) {
  refuse_unknown(c, entry,
                 {"max_new_tokens", "steps", "block_size", "temperature", "remasking", "use_cache",
                  "threshold", "factor", "alg", "top_p", "top_k"});
  const Json& params = entry.at("params");
  const bool dream = entry.at("sampler").get<std::string>().find("Dream") != std::string::npos;
  const Json cache = params.value("use_cache", Json());
  const bool cached = !is_off(cache);
  const std::shared_ptr<model::Model> model = sampler_model(c, entry);
  std::vector<SamplerRow> rows = rows_of(entry, dream);
  int64_t width = 0;
  for (const SamplerRow& row : rows) width = std::max(width, row.length);
  if (dream) align_right(rows);

  const UnmaskingRule rule = rule_of(c, params, dream, cached);
  Options options = sampler_options(entry, rule.policy, "bidirectional", dream);
  options.set_json(rule.options);
  const auto length = params.at("max_new_tokens").get<int64_t>();
  const auto steps = params.at("steps").get<int64_t>();
  // Dream without cache decodes all at once.
  const int64_t block = dream && !cached ? length : params.at("block_size").get<int64_t>();
  const int64_t blocks = ceil_divide(length, block);
  options.set_i64("block_length", block);
  options.set_i64("steps", ceil_divide(steps, blocks) * blocks);
  options.set_str("cache", cached ? cache.get<std::string>() : "none");
  options.set_i64("suppress_mask", 0);
  options.set_i64("trace", 1);
  if (dream) {
    options.set_f64("top_p", params.value("top_p", 1.0));
    options.set_i64("top_k",
                    is_off(params.value("top_k", Json())) ? 0 : params.at("top_k").get<int64_t>());
  }

  if (rows.size() == 1) compare_first_logits(c, *model, entry, rows, {decode::AttentionSpan{}});
  decode::Decoder decoder(model, options);
  for (const SamplerRow& row : rows) add_row(decoder, entry, row, dream ? row.length : width);
  decoder.run();
  for (size_t r = 0; r < rows.size(); ++r) {
    compare_row(c, decoder, static_cast<int64_t>(r), rows[r], static_cast<int64_t>(r),
                entry.at("mask_id").get<int32_t>());
  }
  if (rows.size() == 1)
    c.equal(static_cast<int64_t>(decoder.metric(0, "nfe")), entry.at("nfe").get<int64_t>(), "nfe");
}

} // namespace dllm::parity
