#include "handlers/decoding/sampler_case.h"

#include "base/error.h"
#include "handlers/models/family_cases.h"
#include "handlers/models/reference_names.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::parity {
namespace {

bool has_key(const Options& options, const std::string& key) {
  const auto& specs = options.schema().specs();
  return std::any_of(specs.begin(), specs.end(),
                     [&](const OptionSpec& spec) { return spec.key == key; });
}

std::vector<std::string> id_texts(const Json& ids) {
  std::vector<std::string> texts;
  if (!ids.is_array()) return texts;
  for (const Json& id : ids) texts.push_back(std::to_string(id.get<int32_t>()));
  return texts;
}

// One row of a canvas (batch, width); columns that are not there yet hold the mask.
Ids columns_of(const Tensor& canvas, int64_t row, int64_t begin, int64_t count, int32_t mask) {
  const auto first = canvas.as<int32_t>().begin() + row * canvas.shape()[1] + begin;
  Ids ids(first, first + count);
  std::replace(ids.begin(), ids.end(), -1, mask);
  return ids;
}

void push_if_new(std::vector<Ids>& history, Ids canvas) {
  if (history.empty() || history.back() != canvas) history.push_back(std::move(canvas));
}

std::vector<Ids> decoder_history(const std::string& trace, int64_t length) {
  std::vector<Ids> history;
  for (size_t begin = 0; begin < trace.size();) {
    const size_t end = trace.find('\n', begin);
    Ids canvas = parse_json(trace.substr(begin, end - begin), "trace").at("ids").get<Ids>();
    canvas.resize(static_cast<size_t>(length));
    push_if_new(history, std::move(canvas));
    begin = end + 1;
  }
  return history;
}

// The given tokens masked, but those to keep.
Ids unconditional(const Json& entry, const SamplerRow& row, Ids ids, int32_t mask) {
  const Json keep = entry.at("params").value("cfg_keep_tokens", Json::array());
  for (size_t i = 0; i < std::min(ids.size(), row.canvas.size()); ++i) {
    const bool given = row.fixed.empty() || row.fixed[i] != 0;
    const bool kept =
        keep.is_array() && std::find(keep.begin(), keep.end(), Json(ids[i])) != keep.end();
    if (given && !kept) ids[i] = mask;
  }
  return ids;
}

} // namespace

bool is_off(const Json& value) {
  return value.is_null() || (value.is_boolean() && !value.get<bool>()) ||
         (value.is_number() && value.get<double>() == 0) || (value.is_array() && value.empty());
}

int64_t ceil_divide(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

std::string text_of(const Ids& ids) {
  return fmt::format("{}", fmt::join(ids, " "));
}

void refuse_unknown(Case& c, const Json& entry, std::initializer_list<std::string_view> known) {
  const auto method = entry.at("method").get<std::string>();
  if (method != "sample" && method != "infill")
    c.skip("method " + method + " is not supported yet");
  for (const auto& [key, value] : entry.at("params").items()) {
    if (std::find(known.begin(), known.end(), key) != known.end() || is_off(value)) continue;
    if (key == "temperature" && c.has("u_gumbel")) continue;
    c.skip(fmt::format("parameter {} = {} is not supported yet", key, value.dump()));
  }
}

std::vector<SamplerRow> rows_of(const Json& entry, bool right_shift) {
  const bool infill = entry.at("method") == "infill";
  const auto mask = entry.at("mask_id").get<int32_t>();
  std::vector<SamplerRow> rows;
  for (const Json& input : entry.at("inputs")) {
    SamplerRow row;
    row.canvas = input.get<Ids>();
    if (infill) {
      for (const int32_t id : row.canvas) row.fixed.push_back(id != mask ? 1 : 0);
    } else if (row.canvas.empty() && right_shift) {
      row.canvas = {entry.at("bos_id").get<int32_t>()}; // a shifted sampler needs a token before
    }
    const int64_t open = infill ? 0 : entry.at("params").at("max_new_tokens").get<int64_t>();
    row.length = static_cast<int64_t>(row.canvas.size()) + open;
    rows.push_back(std::move(row));
  }
  return rows;
}

void align_right(std::vector<SamplerRow>& rows, int64_t multiple) {
  int64_t widest = 0;
  for (const SamplerRow& row : rows)
    widest = std::max(widest, static_cast<int64_t>(row.canvas.size()));
  widest = ceil_divide(widest, multiple) * multiple;
  for (SamplerRow& row : rows) row.column = widest - static_cast<int64_t>(row.canvas.size());
}

Options sampler_options(const Json& entry, const std::string& policy, const char* attention,
                        bool right_shift) {
  const Json& params = entry.at("params");
  Options options(decode::decoder_schema(policy));
  Json values{{"temperature", params.value("temperature", 0.0)},
              {"gen_length", params.value("max_new_tokens", int64_t{0})},
              {"attention", attention},
              {"shift", right_shift ? 1 : 0},
              {"guidance", params.value("cfg_scale", 0.0)},
              {"guidance_keep", id_texts(params.value("cfg_keep_tokens", Json()))},
              {"suppress_mask", false},
              {"defer", id_texts(params.value("begin_suppress_tokens", Json()))},
              {"suppress", id_texts(params.value("suppress_tokens", Json()))}};
  if (entry.contains("scheduler")) {
    values["schedule"] =
        reference_schedule(entry.at("scheduler").get<std::string>(), entry, "none")->name();
  }
  for (const auto& [key, value] : values.items()) {
    if (has_key(options, key)) options.set_json(Json{{key, value}});
  }
  return options;
}

std::shared_ptr<model::Model> sampler_model(Case& c, const Json& entry) {
  std::shared_ptr<model::Model> model = c.topic().model(entry.at("model").get<std::string>());
  model->set_mask_token(entry.at("mask_id").get<int64_t>());
  return model;
}

void compare_first_logits(Case& c, model::Model& model, const Json& entry,
                          const std::vector<SamplerRow>& rows,
                          const std::vector<decode::AttentionSpan>& sights) {
  if (!c.has("first_logits")) return;
  const Tensor& want = c.array("first_logits");
  const auto mask = entry.at("mask_id").get<int32_t>();
  const auto batch = static_cast<int64_t>(rows.size());
  const int64_t width = want.shape()[1], vocab = want.shape()[2];
  const double absolute = c.topic().cases().value("atol_first_logits", 5e-5);
  for (int64_t r = 0; r < want.shape()[0]; ++r) {
    const SamplerRow& row = rows[static_cast<size_t>(r % batch)];
    const int64_t length = std::min(row.length, width - row.column);
    Ids ids = columns_of(c.array("trace").row(0), r % batch, row.column, length, mask);
    if (r >= batch) ids = unconditional(entry, row, std::move(ids), mask);
    const auto first = want.as<float>().begin() + (r * width + row.column) * vocab;
    c.close({absolute, 0}, span_logits(model, ids, sights[static_cast<size_t>(r % batch)]),
            Tensor::from(Shape{length, vocab}, std::vector<float>(first, first + length * vocab)),
            fmt::format("first_logits of row {}", r));
  }
}

void compare_row(Case& c, const decode::Decoder& decoder, int64_t slot, const SamplerRow& row,
                 int64_t number, int32_t mask) {
  const decode::Request& done = decoder.request(slot);
  const Tensor &trace = c.array("trace"), &final = c.array("final");
  // Behind the block with the end token the reference leaves masks, or nothing at all.
  const int64_t decided = done.finish == decode::Finish::stopped ? done.block_end() : done.length();
  const int64_t length = std::min(decided, trace.shape()[2] - row.column);
  std::vector<Ids> want;
  for (int64_t i = 0; i < trace.shape()[0]; ++i)
    push_if_new(want, columns_of(trace.row(i), number, row.column, length, mask));
  const std::vector<Ids> got = decoder_history(decoder.trace(slot), length);
  c.equal(static_cast<int64_t>(got.size()), static_cast<int64_t>(want.size()),
          fmt::format("canvases of row {}", number));
  for (size_t i = 0; i < std::min(got.size(), want.size()); ++i)
    c.equal(text_of(got[i]), text_of(want[i]), fmt::format("row {} canvas {}", number, i));
  c.equal(text_of({done.ids.begin(), done.ids.begin() + length}),
          text_of(columns_of(final, number, row.column, length, mask)),
          fmt::format("final of row {}", number));
}

void run_rows(Case& c, const Json& entry, const std::shared_ptr<model::Model>& model,
              const Options& options, const std::vector<SamplerRow>& rows) {
  Options traced = options;
  traced.set_i64("trace", 1);
  decode::Decoder decoder(model, traced);
  for (const SamplerRow& row : rows) {
    Options slot(decode::request_schema());
    if (row.fixed.empty())
      slot.set_i64("gen_length", row.length - static_cast<int64_t>(row.canvas.size()));
    decoder.add(row.canvas, row.fixed, slot);
  }
  decoder.run();
  int64_t nfe = 0;
  for (int64_t r = 0; r < static_cast<int64_t>(rows.size()); ++r) {
    compare_row(c, decoder, r, rows[static_cast<size_t>(r)], r, entry.at("mask_id").get<int32_t>());
    nfe = std::max(nfe, static_cast<int64_t>(decoder.metric(r, "nfe")));
  }
  if (entry.contains("nfe")) c.equal(nfe, entry.at("nfe").get<int64_t>(), "nfe");
}

} // namespace dllm::parity
