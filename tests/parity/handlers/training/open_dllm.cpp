// Open-dLLM's generation loop (pengzhangzhi/Open-dLLM, diffusion_generate): policy dream on its own
// times. Padding on the left is hidden from the model there; ours has none.

#include "handlers/decoding/decoding_misc.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::parity {
namespace {

// The first canvas holds everything: padding, prompt, masks.
SamplerRow row_of(Case& c, const Json& entry, int64_t number) {
  const Tensor first = c.array("trace").row(0);
  const auto begin = first.as<int32_t>().begin() + number * first.shape()[1];
  Ids ids(begin, begin + first.shape()[1]);
  SamplerRow row;
  const Json pad = entry.value("pad_id", Json());
  const auto is_pad = [&](int32_t id) { return !pad.is_null() && id == pad.get<int32_t>(); };
  const auto front = std::find_if_not(ids.begin(), ids.end(), is_pad);
  row.column = front - ids.begin();
  row.canvas.assign(front, ids.end());
  if (std::any_of(row.canvas.begin(), row.canvas.end(), is_pad))
    c.skip("padding inside a row is not supported yet");
  for (const int32_t id : row.canvas)
    row.fixed.push_back(id != entry.at("mask_id").get<int32_t>() ? 1 : 0);
  row.length = static_cast<int64_t>(row.canvas.size());
  return row;
}

} // namespace

void run_open_dllm(Case& c, const Json& entry) {
  const auto alg = entry.at("alg").get<std::string>();
  const auto& algs = decode::decoder_schema("dream").find("alg").choices;
  if (std::find(algs.begin(), algs.end(), alg) == algs.end())
    c.skip("alg " + alg + " is not supported yet");
  if (alg == "origin") c.skip("alg origin draws what is not recorded");
  for (const char* key : {"temperature", "alg_temp"}) {
    if (entry.contains(key) && !is_off(entry.at(key)))
      c.skip(std::string(key) + " draws what is not recorded");
  }
  std::vector<SamplerRow> rows;
  for (int64_t r = 0; r < c.array("trace").shape()[1]; ++r) rows.push_back(row_of(c, entry, r));
  Json whole = entry;
  whole["params"] = Json::object();
  Options options = sampler_options(whole, "dream", "bidirectional", true);
  options.set_str("alg", alg);
  options.set_str("plan", "times");
  options.set_f64("eps", entry.at("eps").get<double>());
  options.set_i64("steps", entry.at("steps").get<int64_t>());
  run_rows(c, entry, sampler_model(c, entry), options, rows);
}

} // namespace dllm::parity
