#include "handlers/training/edit_checks.h"

#include "handlers/models/reference_names.h"
#include "noise/rows/edit_alignment.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace dllm::parity {

noise::ObjectiveRef reference_editflow(const Json& settings, const std::string& compat) {
  Options options(noise::objective_schema("editflow"));
  options.set_f64("max_weight", settings.at("max_w").get<double>());
  options.set_str("loss_norm",
                  settings.at("normalize_per_position").get<bool>() ? "sequence" : "batch");
  options.set_str("compat", compat);
  return noise::make_objective(
      "editflow", reference_schedule(settings.at("scheduler").get<std::string>(), settings, compat),
      options);
}

Batch prepare_edits(const noise::Objective& objective, const model::Model& model,
                    const EditRows& rows) {
  Tensor ids = rows.clean.clone(), segments(DType::i32, ids.shape()), noise = rows.t.clone(),
         start = rows.start.clone();
  for (size_t i = 0; i < static_cast<size_t>(ids.count()); ++i) {
    int32_t& id = ids.mutable_as<int32_t>()[i];
    segments.mutable_as<int32_t>()[i] = id >= 0 ? 1 : 0;
    id = std::max(id, 0);
  }
  for (float& t : noise.mutable_as<float>()) t = 1.0f - t;
  const int64_t batch = ids.shape()[0], width = ids.shape()[1] + start.shape()[1];
  Tensor columns(DType::f32, {batch, width});
  for (size_t b = 0; b < rows.columns.size(); ++b) {
    auto to = columns.mutable_as<float>().subspan(b * static_cast<size_t>(width));
    std::ranges::transform(rows.columns[b], to.begin(), [](float u) { return std::min(u, 1.0f); });
  }
  Batch raw;
  raw.set("ids", ids);
  raw.set("segments", segments);
  raw.set("start_ids", start);
  raw.set("t", noise);
  raw.set("u_mask", columns);
  return objective.prepare(raw, 0, 0, noise::prepare_context(objective, model.config()));
}

void check_edit_rows(Case& c, const Batch& prepared, const Tensor& tokens, const Tensor& mask) {
  Tensor ids = first_columns(prepared.at("ids"), tokens.shape()[1]), want = tokens.clone();
  for (size_t i = 0; i < static_cast<size_t>(want.count()); ++i) {
    const auto there = static_cast<int32_t>(mask.to(DType::i32).as<int32_t>()[i]);
    want.mutable_as<int32_t>()[i] *= there;
  }
  c.equal(first_columns(prepared.at("keys"), tokens.shape()[1]).to(DType::i32), mask.to(DType::i32),
          "x_mask");
  c.equal(ids, want, "x_tok");
}

void check_edit_heads(Case& c, Tolerance tolerance, const Batch& heads) {
  c.close(tolerance, heads.at("heads.substitute"), c.array("sub_logits"), "sub_logits");
  c.close(tolerance, heads.at("heads.insert"), c.array("ins_logits"), "ins_logits");
  const Tensor& raw = heads.at("heads.rate");
  const char* names[] = {"sub_rate_hat", "del_rate_hat", "ins_rate_hat"};
  for (size_t kind = 0; kind < std::size(names); ++kind) {
    Tensor rates(DType::f32, c.array(names[kind]).shape());
    for (size_t i = 0; i < static_cast<size_t>(rates.count()); ++i) {
      const float x = raw.as<float>()[i * std::size(names) + kind];
      rates.mutable_as<float>()[i] = std::max(x, 0.0f) + std::log1p(std::exp(-std::abs(x)));
    }
    c.close(tolerance, rates, c.array(names[kind]), names[kind]);
  }
}

namespace {

void check_ids(Case& c, const std::vector<int32_t>& got, const Json& want,
               const std::string& what) {
  c.equal(Json(got).dump(), want.dump(), what);
}

} // namespace

void check_alignment(Case& c, const Json& entry) {
  const auto ids = [&](const char* name) { return entry.at(name).get<std::vector<int32_t>>(); };
  const noise::Alignment made = noise::align(ids("x0"), ids("x1"));
  check_ids(c, made.from, entry.at("z0"), "z0");
  check_ids(c, made.to, entry.at("z1"), "z1");
  Json edits = Json::array();
  for (const noise::Edit& edit : noise::edits_between(ids("zt"), made.to)) {
    const bool removes = edit.kind == noise::Edit::Kind::remove;
    const char* kind = removes ? "DEL" : edit.kind == noise::Edit::Kind::insert ? "INS" : "SUB";
    edits.push_back({kind, edit.position, removes ? Json() : Json(edit.token)});
  }
  c.equal(edits.dump(), entry.at("edits").dump(), "edits");
}

} // namespace dllm::parity
