#include "noise/terms/loss_terms.h"

#include "base/error.h"
#include "graph/ops.h"
#include "noise/objective.h"
#include "noise/terms/align_rows.h"

#include <algorithm>
#include <array>

namespace dllm::noise {

namespace {

constexpr const char* kOwnWeight = "own_weight";

} // namespace

LossTerms::LossTerms(const Options& options)
    : teacher_(options), own_weight_(options.f64(kOwnWeight)) {
  for (const auto& file : term_files::kTable) {
    if (LossTermRef term = file().make(options)) terms_.push_back(std::move(term));
  }
}

bool LossTerms::reads_teacher() const {
  return std::ranges::any_of(terms_, [](const auto& term) { return term->reads_teacher(); });
}

std::vector<std::string> LossTerms::parts() const {
  return reads_teacher() ? teacher_.parts() : std::vector<std::string>{};
}

void LossTerms::check(const model::Model& model) const {
  if (reads_teacher()) teacher_.check(model);
}

bool LossTerms::is_prepared(const Batch& prepared) const {
  return std::ranges::all_of(terms_, [&](const auto& t) { return t->is_prepared(prepared); });
}

void LossTerms::prepare(Batch& prepared, const TermContext& context, const TermDraws& draws) const {
  for (const LossTermRef& term : terms_) term->prepare(prepared, context, draws);
}

void LossTerms::feed(const Batch& prepared, const TermContext& context, Batch& feed) const {
  for (const LossTermRef& term : terms_) term->feed(prepared, context, feed);
  if (reads_teacher()) teacher_.feed(prepared, feed);
}

void LossTerms::before_loss(model::Builder& builder, model::ForwardInputs& inputs,
                            const std::map<std::string, graph::Value>& arrays) const {
  if (terms_.empty()) return;
  builder.keep_next_pass();
  const auto rows = arrays.find(kAlignRows);
  if (rows != arrays.end()) inputs.tap_rows = rows->second;
}

void LossTerms::add_to(Loss& loss, model::Builder& builder,
                       const std::map<std::string, graph::Value>& arrays) const {
  if (terms_.empty()) return;
  // A weight of 0 also spares the backward pass, and counts where the loss is not finite.
  loss.sum = own_weight_ == 0
                 ? graph::scalar(builder.graph(), 0.0f)
                 : graph::multiply(loss.sum,
                                   graph::scalar(builder.graph(), static_cast<float>(own_weight_)));
  Teacher teacher = teacher_;
  for (const LossTermRef& term : terms_) {
    const LossTerm::Built built = term->build({builder, builder.kept(), teacher, arrays});
    loss.sum = graph::add(loss.sum, graph::multiply(built.sum, built.weight));
    loss.parts.push_back({term->name(), graph::stop_gradient(built.sum), loss.normalizer});
  }
}

namespace {

OptionSpec own_weight_row() {
  return option_f64(kOwnWeight, 1.0, 0.0, 1e6,
                    "Weight of the objective's own loss next to align, distill and entropy; 0: "
                    "these alone are trained.");
}

// Fails when one of these options is set.
void check_unset(const Options& options, std::span<const OptionSpec> rows,
                 const std::string& weights) {
  for (const OptionSpec& row : rows) {
    if (!options.is_set(row.key)) continue;
    fail_with_hint("set " + weights + " above 0", Code::invalid_argument,
                   "option {} is set and changes nothing: {} is 0", row.key, weights);
  }
}

} // namespace

void check_term_options(const Options& options) {
  bool teaches = false, adds = false;
  for (const auto& file : term_files::kTable) {
    const TermEntry entry = file();
    const LossTermRef term = entry.make(options);
    teaches = teaches || (term != nullptr && term->reads_teacher());
    adds = adds || term != nullptr;
    if (term != nullptr) continue;
    check_unset(options, std::span(entry.options).subspan(1), entry.options.front().key);
  }
  if (!teaches) check_unset(options, Teacher::option_rows(), "align or distill");
  if (!adds) check_unset(options, std::array{own_weight_row()}, "align, distill or entropy");
}

bool turn_off_terms(Options& options) {
  bool changed = false;
  for (const auto& file : term_files::kTable) {
    const std::string weight = file().options.front().key;
    if (options.f64(weight) == 0) continue;
    options.set_f64(weight, 0);
    changed = true;
  }
  return changed;
}

std::vector<OptionSpec> term_options() {
  std::vector<OptionSpec> rows = {own_weight_row()};
  for (OptionSpec& row : Teacher::option_rows()) rows.push_back(std::move(row));
  for (const auto& file : term_files::kTable) {
    for (OptionSpec& row : file().options) rows.push_back(std::move(row));
  }
  return rows;
}

} // namespace dllm::noise
