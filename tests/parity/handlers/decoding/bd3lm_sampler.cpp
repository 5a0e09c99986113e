// BD3LMSampler: block diffusion behind each row's prompt (ZHZisZZ/dllm, BD3LM sampler). The
// reference pads prompts on the left to whole blocks, so its blocks begin at the prompt's end as
// ours do.

#include "handlers/decoding/samplers.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::parity {
namespace {

// The reference takes every padding token for padding, also in a prompt or an answer.
bool holds_padding(Case& c, const Json& entry, const std::vector<SamplerRow>& rows) {
  const auto pad = entry.at("pad_id").get<int32_t>();
  const Tensor& final = c.array("final");
  bool holds = false;
  for (size_t r = 0; r < rows.size(); ++r) {
    const Tensor row = final.row(static_cast<int64_t>(r));
    const auto ids = row.as<int32_t>().subspan(static_cast<size_t>(rows[r].column));
    holds = holds || std::find(ids.begin(), ids.end(), pad) != ids.end();
  }
  return holds;
}

} // namespace

void run_bd3lm(Case& c, const Json& entry) {
  refuse_unknown(c, entry,
                 {"max_new_tokens", "steps", "block_size", "steps_per_block", "remasking",
                  "cfg_scale", "cfg_keep_tokens", "right_shift_logits"});
  const Json& params = entry.at("params");
  if (params.value("remasking", "low_confidence") != "low_confidence")
    c.skip("remasking " + params.at("remasking").dump() + " draws what is not recorded");
  const bool shift = params.value("right_shift_logits", false);
  const auto block = params.at("block_size").get<int64_t>();
  const std::shared_ptr<model::Model> model = sampler_model(c, entry);
  std::vector<SamplerRow> rows = rows_of(entry, shift);
  align_right(rows, block);
  std::vector<decode::AttentionSpan> sights;
  for (const SamplerRow& row : rows)
    sights.push_back({block, static_cast<int64_t>(row.canvas.size()), false});
  compare_first_logits(c, *model, entry, rows, sights);

  Options options = sampler_options(entry, "bd3lm", "auto", shift);
  options.set_i64("block_length", block);
  options.set_i64("steps", params.at("steps").get<int64_t>());
  options.set_i64("steps_per_block", params.value("steps_per_block", int64_t{0}));
  // No cache goes with it, so elsewhere the exact one is compared.
  if (holds_padding(c, entry, rows))
    options.set_i64("compat_pad", entry.at("pad_id").get<int64_t>());
  // Rows of a batch go on until all have met the end token, and then stop together: ours get
  // no end token and are compared as far as the reference's go.
  Json counted = entry;
  if (rows.size() == 1)
    options.set_i64("eos", entry.at("eos_id").get<int64_t>());
  else if (c.array("final").shape()[1] < rows[0].column + rows[0].length)
    counted.erase("nfe");
  run_rows(c, counted, model, options, rows);
}

} // namespace dllm::parity
