#include "noise/terms/loss_terms.h"

#include "base/error.h"
#include "graph/ops.h"
#include "noise/objective.h"
#include "noise/terms/align_rows.h"

#include <algorithm>

namespace dllm::noise {

LossTerms::LossTerms(const Options& options) : teacher_(options) {
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
  Teacher teacher = teacher_;
  for (const LossTermRef& term : terms_) {
    const LossTerm::Built built = term->build({builder, builder.kept(), teacher, arrays});
    loss.sum = graph::add(loss.sum, graph::multiply(built.sum, built.weight));
    loss.parts.push_back({term->name(), graph::stop_gradient(built.sum), loss.normalizer});
  }
}

namespace {

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
  bool teaches = false;
  for (const auto& file : term_files::kTable) {
    const TermEntry entry = file();
    const LossTermRef term = entry.make(options);
    teaches = teaches || (term != nullptr && term->reads_teacher());
    if (term != nullptr) continue;
    check_unset(options, std::span(entry.options).subspan(1), entry.options.front().key);
  }
  if (!teaches) check_unset(options, Teacher::option_rows(), "align or distill");
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
  std::vector<OptionSpec> rows = Teacher::option_rows();
  for (const auto& file : term_files::kTable) {
    for (OptionSpec& row : file().options) rows.push_back(std::move(row));
  }
  return rows;
}

} // namespace dllm::noise
