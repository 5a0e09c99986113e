#include "noise/terms/loss_terms.h"

#include "base/error.h"
#include "base/word_list.h"
#include "graph/ops.h"
#include "noise/objective.h"
#include "noise/terms/table.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

namespace dllm::noise {

namespace {

constexpr const char* kOwnWeight = "own_weight";

bool is_used(const TermEntry& entry, const Options& options) {
  return options.f64(entry.name()) != 0;
}

} // namespace

LossTerms::LossTerms(const Options& options)
    : teacher_(options), own_weight_(options.f64(kOwnWeight)) {
  for (const TermEntry& entry : term_entries()) {
    if (is_used(entry, options))
      terms_.push_back({&entry, options.f64(entry.name()), entry.make(options)});
  }
}

bool LossTerms::reads_teacher() const {
  return std::ranges::any_of(terms_, [](const Term& own) { return own.entry->reads_teacher(); });
}

std::vector<std::string> LossTerms::parts() const {
  std::vector<std::string> names = trained_parts();
  if (!reads_teacher()) return names;
  for (const std::string& part : teacher_.parts()) names.push_back(part);
  return names;
}

std::vector<std::string> LossTerms::trained_parts() const {
  std::vector<std::string> names;
  for (const Term& own : terms_) {
    for (std::string& part : own.term->parts()) names.push_back(std::move(part));
  }
  return names;
}

std::map<std::string, Json> LossTerms::new_parts(const model::ModelConfig& base) const {
  std::map<std::string, Json> made;
  for (const Term& own : terms_) made.merge(own.term->new_parts(base));
  return made;
}

bool LossTerms::reads_states() const {
  return std::ranges::any_of(terms_, [](const Term& own) { return own.term->reads_states(); });
}

void LossTerms::check(const model::Model& model) const {
  if (reads_teacher()) teacher_.check(model);
}

bool LossTerms::is_prepared(const Batch& prepared) const {
  return std::ranges::all_of(terms_,
                             [&](const Term& own) { return own.term->is_prepared(prepared); });
}

void LossTerms::prepare(Batch& prepared, const TermContext& context, const TermDraws& draws) const {
  for (const Term& own : terms_) own.term->prepare(prepared, context, draws);
}

void LossTerms::feed(const Batch& prepared, const TermContext& context, Batch& feed) const {
  for (const Term& own : terms_) {
    own.term->feed(prepared, context, feed);
    const std::string weight = weight_array(own.entry->name());
    if (!feed.has(weight)) feed.set(weight, Tensor::scalar(static_cast<float>(own.weight)));
  }
  if (reads_teacher()) teacher_.feed(prepared, feed);
}

void LossTerms::before_loss(model::Builder& builder, model::ForwardInputs& inputs,
                            const std::map<std::string, graph::Value>& arrays) const {
  if (terms_.empty()) return;
  builder.keep_next_pass();
  for (const Term& own : terms_) {
    const char* rows = own.term->tap_rows();
    if (rows == nullptr || reads_states()) continue;
    if (inputs.tap_rows.defined()) {
      fail(Code::unimplemented, "{} reads hidden states of layers, and another term reads them too",
           own.entry->name());
    }
    inputs.tap_rows = arrays.at(rows);
  }
}

namespace {

// Returns a pass whose taps are these rows of (batch * seq, hidden).
model::ForwardOutputs taps_at(model::ForwardOutputs pass, graph::Value rows) {
  for (graph::Value& tap : pass.taps)
    tap = graph::take(graph::reshape(tap, {tap.dim(0) * tap.dim(1), tap.dim(2)}), rows);
  return pass;
}

} // namespace

void LossTerms::add_to(Loss& loss, model::Builder& builder,
                       const std::map<std::string, graph::Value>& arrays) const {
  if (terms_.empty()) return;
  // A weight of 0 also spares the backward pass, and counts where the loss is not finite.
  loss.sum = own_weight_ == 0
                 ? graph::scalar(builder.graph(), 0.0f)
                 : graph::multiply(loss.sum,
                                   graph::scalar(builder.graph(), static_cast<float>(own_weight_)));
  Teacher teacher = teacher_;
  std::vector<TermReport> reported;
  for (const Term& own : terms_) {
    const std::string& name = own.entry->name();
    const char* rows = own.term->tap_rows();
    const model::ForwardOutputs student = rows != nullptr && reads_states()
                                              ? taps_at(builder.kept(), arrays.at(rows))
                                              : builder.kept();
    const graph::Value sum = own.term->build({builder, student, teacher, arrays, reported});
    loss.sum = graph::add(loss.sum, graph::multiply(sum, arrays.at(weight_array(name))));
    loss.parts.push_back({name, graph::stop_gradient(sum), loss.normalizer});
  }
  for (const TermReport& own : reported) loss.parts.push_back({own.name, own.sum, own.count});
}

namespace {

OptionSpec own_weight_row() {
  return option_f64(kOwnWeight, 1.0, 0.0, 1e6,
                    "Weight of the objective's own loss next to " + term_names("and") +
                        "; 0: these alone are trained.");
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

// The terms compare the state of each token, so the rows have to keep their tokens in place.
constexpr RowKind kPlacedRows[] = {RowKind::masked, RowKind::replaced, RowKind::clean};

void check_places(const TermUse& use) {
  if (use.rows == RowKind::given ||
      std::ranges::find(kPlacedRows, use.rows) != std::end(kPlacedRows))
    return;
  fail_with_hint("use " + word_list(objectives_of(kPlacedRows), "or"), Code::invalid_argument,
                 "options {} need rows whose tokens keep their places, and objective {} makes "
                 "others",
                 term_names("and"), use.objective);
}

} // namespace

void check_terms(const TermUse& use) {
  std::vector<const TermEntry*> used;
  for (const TermEntry& entry : term_entries()) {
    if (!is_used(entry, use.options)) {
      check_unset(use.options, std::span(entry.options).subspan(1), entry.name());
      continue;
    }
    entry.make(use.options); // fails for options that exclude each other
    used.push_back(&entry);
  }
  if (std::ranges::none_of(used, &TermEntry::reads_teacher))
    check_unset(use.options, Teacher::option_rows(), term_names("or", &TermEntry::reads_teacher));
  if (used.empty()) return check_unset(use.options, std::array{own_weight_row()}, term_names("or"));
  for (const TermEntry* entry : used) {
    if (entry->check != nullptr) entry->check(use);
  }
  check_places(use);
}

bool turn_off_terms(Options& options) {
  bool changed = false;
  for (const TermEntry& entry : term_entries()) {
    if (!is_used(entry, options)) continue;
    options.set_f64(entry.name(), 0);
    changed = true;
  }
  return changed;
}

std::vector<OptionSpec> term_options() {
  std::vector<OptionSpec> rows = {own_weight_row()};
  for (OptionSpec& row : Teacher::option_rows()) rows.push_back(std::move(row));
  for (OptionSpec& row : rows) row.group = kTermGroup;
  for (const TermEntry& entry : term_entries())
    rows.insert(rows.end(), entry.options.begin(), entry.options.end());
  return rows;
}

} // namespace dllm::noise
