// LLaDA2Sampler and LLaDA21Sampler: block-causal decoding on a grid that begins with the canvas
// (ZHZisZZ/dllm).

#include "handlers/decoding/samplers.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::parity {
namespace {

// The reference decodes its last block whole, also what lies behind max_new_tokens.
std::vector<SamplerRow> whole_blocks(std::vector<SamplerRow> rows, int64_t block) {
  for (SamplerRow& row : rows) row.length = ceil_divide(row.length, block) * block;
  return rows;
}

void run(Case& c, const Json& entry, Options options) {
  const Json& params = entry.at("params");
  const auto block = params.at("block_size").get<int64_t>();
  const std::shared_ptr<model::Model> model = sampler_model(c, entry);
  const std::vector<SamplerRow> rows = whole_blocks(rows_of(entry, false), block);
  compare_first_logits(
      c, *model, entry, rows,
      std::vector<decode::AttentionSpan>(rows.size(), decode::AttentionSpan{block, 0, false}));
  options.set_i64("block_length", block);
  options.set_f64("threshold", params.value("threshold", 0.95));
  if (params.value("eos_early_stop", false))
    options.set_i64("eos", entry.at("eos_id").get<int64_t>());
  run_rows(c, entry, model, options, rows);
}

} // namespace

void run_llada2(Case& c, const Json& entry) {
  refuse_unknown(c, entry,
                 {"max_new_tokens", "block_size", "steps_per_block", "threshold", "minimal_topk",
                  "eos_early_stop"});
  const Json& params = entry.at("params");
  Options options = sampler_options(entry, "llada2", "auto", false);
  const int64_t least = params.value("minimal_topk", int64_t{1});
  options.set_i64("minimal_topk", least);
  // Counted without what fills the last block.
  const int64_t most = std::max<int64_t>(params.at("max_new_tokens").get<int64_t>() / least, 1);
  options.set_i64("steps_per_block", std::min(params.value("steps_per_block", int64_t{32}), most));
  run(c, entry, std::move(options));
}

void run_llada21(Case& c, const Json& entry) {
  refuse_unknown(c, entry,
                 {"max_new_tokens", "block_size", "threshold", "editing_threshold",
                  "max_post_steps", "num_to_transfer", "eos_early_stop"});
  const Json& params = entry.at("params");
  Options options = sampler_options(entry, "llada2", "auto", false);
  options.set_f64("editing_threshold", params.value("editing_threshold", 0.9));
  options.set_i64("max_post_steps", params.value("max_post_steps", int64_t{16}));
  options.set_i64("num_to_transfer", params.value("num_to_transfer", int64_t{1}));
  run(c, entry, std::move(options));
}

} // namespace dllm::parity
