// MDLMSampler: low-confidence decoding in blocks behind each row's prompt, or in windows of a
// canvas with holes (ZHZisZZ/dllm).

#include "handlers/decoding/recorded_draws.h"
#include "handlers/decoding/samplers.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

namespace dllm::parity {
namespace {

// Blocks of the open positions behind a prompt, or of a whole canvas with holes.
int64_t block_count(const Json& entry, const SamplerRow& row) {
  const Json& params = entry.at("params");
  const int64_t span =
      entry.at("method") == "infill" ? row.length : params.at("max_new_tokens").get<int64_t>();
  const Json size = params.value("block_size", Json());
  return is_off(size) ? 1 : ceil_divide(span, size.get<int64_t>());
}

} // namespace

void run_mdlm(Case& c, const Json& entry) {
  refuse_unknown(c, entry,
                 {"max_new_tokens", "steps", "block_size", "remasking", "cfg_scale",
                  "cfg_keep_tokens", "suppress_tokens", "begin_suppress_tokens",
                  "right_shift_logits"});
  const Json& params = entry.at("params");
  const bool shift = params.value("right_shift_logits", false);
  const std::shared_ptr<model::Model> model = sampler_model(c, entry);
  const std::vector<SamplerRow> rows = rows_of(entry, shift);
  compare_first_logits(c, *model, entry, rows, std::vector<decode::AttentionSpan>(rows.size()));

  // The reference cuts the padded batch into blocks: every row gets the steps per block of the
  // longest one. Rows with the same number of blocks share a decoder: steps are set for a whole
  // request.
  std::map<int64_t, std::vector<int64_t>> by_blocks;
  for (size_t r = 0; r < rows.size(); ++r)
    by_blocks[block_count(entry, rows[r])].push_back(static_cast<int64_t>(r));
  const int64_t steps_per_block =
      ceil_divide(params.at("steps").get<int64_t>(), by_blocks.rbegin()->first);
  const std::string remasking = params.value("remasking", "low_confidence");
  if (remasking != "low_confidence" && remasking != "random")
    c.skip("remasking " + remasking + " is not supported yet");
  const std::shared_ptr<const decode::RandomSource> draws = recorded_draws(c);
  if (remasking == "random" && !draws) c.skip("remasking random draws what is not recorded");
  for (const auto& [blocks, numbers] : by_blocks) {
    Options options = sampler_options(entry, remasking, "bidirectional", shift);
    const Json size = params.value("block_size", Json());
    options.set_i64("block_length", is_off(size) ? 0 : size.get<int64_t>());
    options.set_i64("steps", steps_per_block * blocks);
    options.set_i64("trace", 1);
    decode::Decoder decoder(model, options);
    decoder.set_random_source(draws);
    for (const int64_t number : numbers) {
      const SamplerRow& row = rows[static_cast<size_t>(number)];
      decoder.add(row.canvas, row.fixed, Options(decode::request_schema()));
    }
    decoder.run();
    for (size_t i = 0; i < numbers.size(); ++i) {
      compare_row(c, decoder, static_cast<int64_t>(i), rows[static_cast<size_t>(numbers[i])],
                  numbers[i], entry.at("mask_id").get<int32_t>());
    }
    // Rows of one batch wait for each other in the reference: its count is a row's own for one row
    // alone.
    if (rows.size() == 1 && entry.contains("nfe"))
      c.equal(static_cast<int64_t>(decoder.metric(0, "nfe")), entry.at("nfe").get<int64_t>(),
              "nfe");
  }
}

} // namespace dllm::parity
