#include "noise/objective.h"

#include "base/error.h"
#include "base/named_table.h"
#include "noise/loss/token_ce.h"
#include "noise/objectives/table.h"
#include "noise/rows/trained_padding.h"
#include "tensor/batch.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::noise {
namespace {

struct KnownObjective {
  std::string name, schedule;
  Schema schema;
  ObjectiveRef (*make)(ScheduleRef, const Options&);
  ObjectiveFacts facts;
};

const std::vector<KnownObjective>& known_objectives() {
  static const std::vector<KnownObjective> all = [] {
    std::vector<KnownObjective> made;
    for (const auto& file : objective_files::kTable) {
      ObjectiveEntry entry = file();
      made.push_back({entry.name, entry.schedule,
                      Schema("objective:" + entry.name, std::move(entry.options)), entry.make,
                      entry.facts});
    }
    return made;
  }();
  return all;
}

const KnownObjective& find_objective(const std::string& name) {
  return need_named(known_objectives(), name, &KnownObjective::name, {"objective"});
}

} // namespace

std::vector<OptionSpec> shared_objective_options() {
  std::vector<OptionSpec> rows = {
      option_choice("attention", "auto", {"auto", "causal", "bidirectional", "block_causal"},
                    "Attention of a token; auto: as the objective needs, else the model's own."),
      option_i64("shift", -1, -1, 1,
                 "1: the hidden state before a token predicts it; -1: the model's own."),
      option_i64("block_length", 0, 0, 1 << 24,
                 "Block of block_causal attention; 0: the model's own."),
      option_i64("mask_id", -1, -1, 1 << 30,
                 "Token that stands for a masked one; -1: the model's own."),
      option_choice("compat", "none", {"none", "dllm-jax", "dllm", "dmax", "nano", "open-dllm"},
                    "Reproduces the known quirks of a reference."),
  };
  for (OptionSpec& row : FillerUse::option_rows()) rows.push_back(std::move(row));
  for (OptionSpec& row : term_options()) rows.push_back(std::move(row));
  return rows;
}

Batch TokenCeArrays::added_to(const Batch& batch) const {
  Batch made = batch;
  made.set("ids", ids);
  made.set("targets", targets);
  made.set("weights", weights);
  made.set("normalizer", normalizer);
  made.set("t", t);
  return made;
}

TokenCeArrays::TokenCeArrays(int64_t batch, int64_t seq, std::span<const int32_t> clean)
    : ids(Tensor::from(Shape{batch, seq}, clean)), targets(DType::i32, {batch, seq}),
      weights(DType::f32, {batch, seq}), normalizer(DType::f32, {batch}), t(DType::f32, {batch}) {
  std::ranges::fill(targets.mutable_as<int32_t>(), -1);
}

int32_t MaskingObjective::mask_id(const PrepareContext& context) const {
  if (context.mask_id < 0) {
    fail_with_hint("set the model option mask_token to a token or an id, or train from a model "
                   "that has a mask token",
                   Code::failed_precondition,
                   "objective {} needs a mask token and the model has none", name());
  }
  if (context.vocab > 0 && context.mask_id >= context.vocab) {
    fail(Code::invalid_argument, "mask id {} is not in the vocabulary of {}", context.mask_id,
         context.vocab);
  }
  return static_cast<int32_t>(context.mask_id);
}

model::AttentionKind MaskingObjective::attention(const model::ModelConfig& config) const {
  return options_.str("attention") == "auto" ? model::AttentionKind::bidirectional
                                             : Objective::attention(config);
}

GivenRules Objective::given_rules() const {
  // With compat = nano a mask token of the text counts, given or not.
  return {name(), raw_arrays(), prepared_arrays(), options_.str("compat") != "nano"};
}

bool Objective::is_prepared(const Batch& batch) const {
  return holds_loss_arrays(batch, given_rules());
}

Batch Objective::prepare(const Batch& batch, uint64_t seed, int64_t step,
                         const PrepareContext& context) const {
  const GivenRules rules = given_rules();
  if (holds_loss_arrays(batch, rules)) return batch;
  Batch made = prepare_rows(raw_rows(batch, rules), seed, step, context);
  // An objective may make several rows of one.
  const int64_t rows = batch.at("ids").shape()[0],
                times = made.at("ids").shape()[0] / std::max<int64_t>(rows, 1),
                first_row = times * batch.global_rows(rows).first;
  filler_.prepare(made, context.filler, context.held_out, {seed, step, first_row});
  if (!terms_.empty()) {
    if (batch.at("ids").shape() == made.at("ids").shape()) made.set(kCleanIds, batch.at("ids"));
    terms_.prepare(made, {context.shift, context.layers, context.vocab, schedule_.get()},
                   {seed, step, first_row});
  }
  return made;
}

TokenCeSettings Objective::token_ce_settings(const Batch& prepared,
                                             const model::ModelConfig& config) const {
  const std::string& compat = options_.str("compat");
  TokenCeSettings settings;
  settings.attention = attention(config);
  const Tensor* block = prepared.find("block_length");
  if (block != nullptr && block->count() != 1) {
    fail(Code::invalid_argument, "array block_length has shape {}, expected one number",
         block->shape().text());
  }
  settings.block = block != nullptr ? block->to(DType::i32).as<int32_t>()[0] : block_length(config);
  settings.shift = shift(config);
  settings.first_predicts_itself = compat == "dllm-jax" || compat == "dllm";
  settings.clean_predicts_blocks = compat == "none";
  return settings;
}

Batch Objective::feed(const Batch& prepared, const model::ModelConfig& config) const {
  Batch made = feed_rows(prepared, config);
  filler_.feed(prepared, config.filler, made);
  if (terms_.empty()) return made;
  const TermContext context{shift(config), config.layers, config.vocab_size, schedule_.get()};
  if (terms_.is_prepared(prepared)) {
    terms_.feed(prepared, context, made);
    return made;
  }
  Batch whole = prepared; // of a caller who prepared the rows without the terms
  const int64_t first = whole.global_rows(whole.at("ids").shape()[0]).first;
  terms_.prepare(whole, context, {0, 0, first});
  terms_.feed(whole, context, made);
  return made;
}

Batch Objective::feed_rows(const Batch& prepared, const model::ModelConfig& config) const {
  Batch made = token_ce_feed(
      model::parse_tokens(prepared, model::token_rules(model::TokenUse::loss, config)),
      token_ce_settings(prepared, config));
  feed_padding(prepared, made);
  return made;
}

Loss Objective::loss(model::Builder& builder,
                     const std::map<std::string, graph::Value>& arrays) const {
  // dllm-jax: a query that sees no key averages all values.
  const bool empty_average = options_.str("compat") == "dllm-jax";
  LossInputs inputs;
  inputs.tokens = model::forward_inputs(arrays, attention(builder.config()), empty_average);
  const auto value = [&](const char* array) {
    const auto found = arrays.find(array);
    return found == arrays.end() ? graph::Value{} : found->second;
  };
  inputs.head_rows = value(kHeadRows);
  inputs.head_targets = value(kHeadTargets);
  inputs.head_weights = value(kHeadWeights);
  inputs.head_count = value(kHeadCount);
  inputs.normalizer = value(kNormalizer);
  inputs.all = arrays;
  builder.set_filler_gradient(filler_.gradient());
  terms_.before_loss(builder, inputs.tokens, arrays);
  Loss made = build_loss(builder, inputs);
  add_filler_parts(made, builder.filled());
  terms_.add_to(made, builder, arrays);
  report_padding(inputs, made);
  return made;
}

Loss Objective::build_loss(model::Builder& builder, const LossInputs& inputs) const {
  return token_ce_loss(builder, inputs);
}

std::vector<std::string> Objective::trained_parts() const {
  std::vector<std::string> names = terms_.trained_parts();
  names.insert(names.begin(), model::kBasePart);
  return names;
}

std::map<std::string, Json> Objective::new_parts(const model::ModelConfig& base) const {
  return terms_.new_parts(base);
}

Batch Objective::with_state(Batch feed, const StateArrays& state) const {
  for (const auto& [name, array] : state) feed.set("state:" + name, array);
  return feed;
}

void Objective::check_parts(const model::Model& model) const {
  const model::PartList read = model.reading(other_parts());
  for (const std::string& part : trained_parts()) {
    if (!read.has(part))
      fail(Code::internal, "objective {} trains part {}, which its loss does not read", name(),
           part);
  }
  filler_.check(model.config(), attention(model.config()));
  terms_.check(model);
}

model::AttentionKind Objective::attention(const model::ModelConfig& config) const {
  const model::AttentionKind wanted = model::attention_from_name(options_.str("attention"));
  return wanted == model::AttentionKind::automatic ? config.attention : wanted;
}

int Objective::shift(const model::ModelConfig& config) const {
  const int64_t wanted = options_.i64("shift");
  return static_cast<int>(wanted >= 0 ? wanted : config.shift);
}

int64_t Objective::block_length(const model::ModelConfig& config) const {
  return options_.i64("block_length") > 0 ? options_.i64("block_length") : config.block_length;
}

Json Objective::describe() const {
  Json made = options_.to_json();
  made["name"] = name();
  made["schedule"] = schedule_->describe();
  made["quirks"] = Json::array();
  return made;
}

PrepareContext prepare_context(const Objective& objective, const model::ModelConfig& config) {
  PrepareContext context;
  context.vocab = config.vocab_size;
  const int64_t mask = objective.options().i64("mask_id");
  context.mask_id = mask >= 0 ? mask : config.mask_token_id;
  context.shift = objective.shift(config);
  context.block_length = objective.block_length(config);
  context.time_steps = config.time_conditioning ? config.time_steps : 0;
  context.layers = config.layers;
  context.filler = config.filler;
  return context;
}

std::vector<std::string> objective_names() {
  return names_of(known_objectives(), &KnownObjective::name);
}

std::vector<std::string> objectives_of(std::span<const RowKind> kinds) {
  std::vector<std::string> names;
  for (const RowKind kind : kinds) {
    for (const KnownObjective& entry : known_objectives()) {
      if (entry.facts.rows == kind) names.push_back(entry.name);
    }
  }
  return names;
}

const Schema& objective_schema(const std::string& name) {
  static const Schema shared("objective", shared_objective_options());
  return name.empty() ? shared : find_objective(name).schema;
}

const ObjectiveFacts& objective_facts(const std::string& name) {
  return find_objective(name).facts;
}

ObjectiveRef make_objective(const std::string& name, ScheduleRef schedule, const Options& options) {
  const KnownObjective& entry = find_objective(name);
  Options own(entry.schema);
  own.take_set(options);
  if (schedule == nullptr) {
    Options generic(schedule_schema(""));
    const std::string& compat = own.str("compat");
    if (compat == "dllm-jax" || compat == "dllm" || compat == "open-dllm")
      generic.set_str("compat", compat);
    schedule = make_schedule(entry.schedule, generic);
  }
  check_terms({entry.name, entry.facts.rows, own});
  check_filler(entry.name, entry.facts.rows, own);
  return entry.make(std::move(schedule), own);
}

ObjectiveRef without_terms(const ObjectiveRef& objective) {
  Options plain = objective->options();
  if (!turn_off_terms(plain)) return objective;
  return with_options(*objective, plain);
}

ObjectiveRef with_options(const Objective& objective, const Options& options) {
  return find_objective(objective.name()).make(objective.schedule(), options);
}

ObjectiveRef make_objective(const std::string& name, ScheduleRef schedule) {
  return make_objective(name, std::move(schedule), Options(objective_schema(name)));
}

} // namespace dllm::noise
