// DreamSampler: one block, confidences after temperature and filters (ZHZisZZ/dllm). The
// reference pads on the left and hides the padding; ours has none.

#include "handlers/decoding/samplers.h"

#include <nlohmann/json.hpp>

namespace dllm::parity {

void run_dream(Case& c, const Json& entry) {
  refuse_unknown(
      c, entry,
      {"max_new_tokens", "steps", "alg", "top_p", "top_k", "right_shift_logits", "cfg_scale"});
  const Json& params = entry.at("params");
  const auto alg = params.value("alg", std::string("origin"));
  if (alg != "maskgit_plus" && alg != "topk_margin" && alg != "entropy")
    c.skip("alg " + alg + " is not supported yet");
  const bool shift = params.value("right_shift_logits", true);
  const std::shared_ptr<model::Model> model = sampler_model(c, entry);
  std::vector<SamplerRow> rows = rows_of(entry, shift);
  align_right(rows);
  compare_first_logits(c, *model, entry, rows, std::vector<decode::AttentionSpan>(rows.size()));

  Options options = sampler_options(entry, "dream", "bidirectional", shift);
  options.set_str("alg", alg);
  options.set_str("plan", "schedule");
  options.set_i64("steps", params.at("steps").get<int64_t>());
  const Json top_k = params.value("top_k", Json()), top_p = params.value("top_p", Json());
  if (!is_off(top_k)) options.set_i64("top_k", top_k.get<int64_t>());
  if (!is_off(top_p)) options.set_f64("top_p", top_p.get<double>());
  run_rows(c, entry, model, options, rows);
}

} // namespace dllm::parity
