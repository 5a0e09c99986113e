#include "train/step/program_spec.h"

#include "base/error.h"
#include "base/log.h"
#include "model/adapters/kinds/adapter_kinds.h"
#include "noise/terms/replayed_terms.h"
#include "noise/terms/table.h"
#include "train/step/layer_rates.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <map>

namespace dllm::train {
namespace {

bool divides_each_micro_batch(const std::string& compat) {
  return compat == "dllm-jax" || compat == "dllm" || compat == "nano";
}

// Checks the names of state arrays. They are prefixes in state files ("first.<tensor>"), where the
// trainer's own arrays have names too.
void check_name(const Optimizer& optimizer, const std::string& name) {
  const bool taken = name == "param" || name == "ema" || name == "sums";
  if (taken || name.empty() || name.find_first_of(".:") != std::string::npos)
    fail(Code::internal, "optimizer {}: an array cannot be named '{}'", optimizer.name, name);
}

// Adds the arrays of the optimizer: all parameters of one name, then all of the next name.
void add_optimizer_state(ProgramSpec& spec, const Options& options) {
  const auto& physical = spec.model->params().physical();
  std::vector<StateEntry> declared;
  std::vector<std::string> names; // in the order of their first declaration
  for (size_t i = 0; i < spec.trained.size(); ++i) {
    std::ptrdiff_t last = -1;
    for (StateArray& array : spec.optimizer->state(options, physical[spec.trained[i]].spec)) {
      check_name(*spec.optimizer, array.name);
      if (std::ranges::find(names, array.name) == names.end()) names.push_back(array.name);
      const std::ptrdiff_t at = std::ranges::find(names, array.name) - names.begin();
      if (at <= last)
        fail(Code::internal, "optimizer {}: {} is out of order", spec.optimizer->name, array.name);
      last = at;
      declared.push_back({StateUse::optimizer, std::move(array.name), i, std::move(array.layout)});
    }
  }
  for (const std::string& name : names) {
    for (const StateEntry& entry : declared) {
      if (entry.name == name) spec.state.push_back(entry);
    }
  }
}

// Fails for an optimizer that needs whole matrices when a matrix is cut.
void check_cuts(const ProgramSpec& spec) {
  if (!spec.optimizer->whole_matrices) return;
  for (const size_t index : spec.trained) {
    const model::ParamStore::Physical& entry = spec.model->params().physical()[index];
    if (entry.layout.is_whole()) continue;
    fail_with_hint("use adamw, lion or sgd, or a mesh with only the axis data", Code::unimplemented,
                   "optimizer {} updates whole matrices, but {} is cut over the ranks ({})",
                   spec.optimizer->name, entry.name, entry.layout.text());
  }
}

// Fails when the optimizer would update no parameter by its own rule.
void check_own(const ProgramSpec& spec) {
  if (spec.optimizer->is_own == nullptr) return;
  const auto& physical = spec.model->params().physical();
  if (std::ranges::any_of(spec.trained,
                          [&](size_t i) { return spec.optimizer->is_own(physical[i].spec); }))
    return;
  fail_with_hint(
      "choose optimizer adamw, or train the matrices of layers too", Code::invalid_argument,
      "optimizer {} updates matrices of layers, and none of them is trained: AdamW would "
      "update all {} trained stacks, such as {}",
      spec.optimizer->name, spec.trained.size(), physical[spec.trained[0]].name);
}

// Sets what is replayed. Fails with invalid_argument for an objective that aligns nothing.
void set_replay(ProgramSpec& spec) {
  if (spec.options.i64("replay") == 0) return;
  spec.replay = noise::replayed_terms_of(*spec.objective);
  spec.replay_weight = spec.options.f64("replay_weight");
  if (spec.replay != nullptr) return;
  fail_with_hint("set " + noise::term_names("or", &noise::TermEntry::is_replayed) +
                     " above 0, or replay to 0",
                 Code::invalid_argument,
                 "replay aligns earlier batches again, and objective {} has no alignment",
                 spec.objective->name());
}

bool is_up_of_adapter(const model::ParamSpec& spec) {
  return spec.role == model::ParamRole::adapter && model::adapter_tensor_is_up(spec.name);
}

} // namespace

ProgramSpec program_spec(const model::Model& model, const noise::Objective& objective,
                         const Options& options) {
  return program_spec(model, objective, options, optimizer_of(options));
}

ProgramSpec program_spec(const model::Model& model, const noise::Objective& objective,
                         const Options& options, const Optimizer& optimizer) {
  ProgramSpec spec{
      .model = &model, .objective = &objective, .optimizer = &optimizer, .options = options};
  spec.parts = model.reading(objective.other_parts());
  spec.selection = std::make_shared<const model::Selection>(
      model.selection_of(objective.trained_parts(), options.list("freeze")));
  const bool decay_all = options.str("decay") == "all";
  const std::vector<ParameterGroup> groups = parameter_groups(options);
  const auto& physical = model.params().physical();
  const LayerRates layers(options, model.params());
  const auto lora_plus = static_cast<float>(options.f64("lora_plus"));
  bool has_up = false;
  for (size_t i = 0; i < physical.size(); ++i) {
    if (!spec.selection->trains(physical[i])) continue;
    const ParameterGroup* group = find_group(groups, physical[i].spec);
    GroupRate rate = group == nullptr ? GroupRate{} : group->rate;
    const bool is_up = is_up_of_adapter(physical[i].spec);
    has_up = has_up || is_up;
    if (group == nullptr || !group->has_lr)
      rate.lr_factor = layers.factor(physical[i]) * (is_up ? lora_plus : 1);
    spec.trained.push_back(i);
    spec.decay.push_back(decay_all || physical[i].decay || rate.weight_decay >= 0);
    spec.rates.push_back(rate);
  }
  if (spec.trained.empty()) {
    fail_with_hint("let freeze name fewer tensors", Code::invalid_argument,
                   "every parameter is frozen");
  }
  if (lora_plus != 1 && !has_up) {
    fail_with_hint("add an adapter of kind lora or dora, or leave lora_plus out",
                   Code::invalid_argument,
                   "lora_plus is {}, and no matrix B of an adapter is trained", lora_plus);
  }
  check_own(spec);
  spec.ema = options.f64("ema") > 0;
  spec.remat = options.boolean("remat");
  spec.round_kept = options.str("activations") == "bf16";
  spec.memory = options.i64("memory");
  spec.offload = options.str("offload");
  spec.window = options.i64("offload_mib") << 20;
  if (spec.remat && spec.memory > 0) {
    fail_with_hint(
        "leave remat out", Code::invalid_argument,
        "option memory chooses the values that are recomputed, and remat recomputes all values");
  }
  if (spec.remat && spec.round_kept) {
    fail_with_hint(
        "leave activations or remat out", Code::invalid_argument,
        "with remat the layers keep only their inputs, so activations = bf16 saves nothing");
  }
  spec.halts = options.str("nonfinite") == "stop";
  spec.mean_of_means = divides_each_micro_batch(options.str("compat"));
  set_replay(spec);
  add_optimizer_state(spec, options);
  for (size_t i = 0; spec.ema && i < spec.trained.size(); ++i)
    spec.state.push_back({StateUse::average, "ema", i, physical[spec.trained[i]].spec});
  for (size_t i = 0; i < spec.trained.size(); ++i)
    spec.state.push_back({StateUse::sum, "sums", i, physical[spec.trained[i]].spec});
  check_cuts(spec);
  return spec;
}

graph::ValueType part_type(const ProgramSpec& spec, const StateEntry& entry) {
  const graph::Layout cut = entry.layout.layout();
  return {cut.part_shape(entry.layout.shape(), spec.model->engine().mesh()), DType::f32,
          cut.axes()};
}

int64_t state_bytes(const ProgramSpec& spec) {
  int64_t bytes = 0;
  for (const StateEntry& entry : spec.state) {
    if (entry.use != StateUse::sum)
      bytes += dtype_size(DType::f32) * part_type(spec, entry).shape.count();
  }
  return bytes;
}

int64_t resident_state_bytes(const ProgramSpec& spec) {
  return spec.offloads() ? 0 : state_bytes(spec);
}

namespace {

// Returns the rates of parameters from the smallest, each with its tensors; empty when all
// parameters have the trainer's.
Json describe_rates(const ProgramSpec& spec) {
  const auto order = [](const GroupRate& a, const GroupRate& b) {
    return std::pair(a.lr_factor, a.weight_decay) < std::pair(b.lr_factor, b.weight_decay);
  };
  std::map<GroupRate, Json, decltype(order)> rows(order);
  for (size_t i = 0; i < spec.trained.size(); ++i) {
    const model::ParamSpec& own = spec.model->params().physical()[spec.trained[i]].spec;
    Json& row = rows[spec.rates[i]];
    if (row.is_null()) {
      row = {{"lr_factor", spec.rates[i].lr_factor}, {"parameters", 0}, {"tensors", Json::array()}};
      if (spec.rates[i].weight_decay >= 0) row["weight_decay"] = spec.rates[i].weight_decay;
    }
    row["parameters"] = row["parameters"].get<int64_t>() + own.shape().count();
    for (int64_t layer = 0; layer < own.copies(); ++layer) {
      for (const model::ParamPiece& piece : own.pieces)
        row["tensors"].push_back(own.logical_name(piece, layer));
    }
  }
  Json made = Json::array();
  const bool is_plain = rows.size() == 1 && rows.contains(GroupRate{});
  for (auto& [rate, row] : rows) {
    if (!is_plain) made.push_back(std::move(row));
  }
  return made;
}

} // namespace

Json describe_optimizer(const ProgramSpec& spec) {
  Json made = {
      {"name", spec.optimizer->name}, {"arrays", Json::array()}, {"scalars", Json::array()}};
  for (const StateEntry& entry : spec.state) {
    if (entry.use != StateUse::optimizer) continue;
    const int64_t bytes = dtype_size(DType::f32) * entry.layout.shape().count();
    Json& arrays = made["arrays"];
    if (arrays.empty() || arrays.back()["name"] != entry.name)
      arrays.push_back({{"name", entry.name}, {"bytes", 0}});
    arrays.back()["bytes"] = arrays.back()["bytes"].get<int64_t>() + bytes;
  }
  for (const StepScalar& scalar : spec.optimizer->scalars) made["scalars"].push_back(scalar.name);
  if (Json rates = describe_rates(spec); !rates.empty()) made["rates"] = std::move(rates);
  return made;
}

namespace {

// Sets the objective's name, attention and shift in the model, so that the model decodes and is
// saved as it was trained. Settings that the user chose with the model stay.
void set_use(model::Model& model, const noise::Objective& objective) {
  const model::ModelConfig& config = model.config();
  const model::Origin& origin = model.origin();
  const Options& options = objective.options();
  int shift = objective.shift(config);
  // A next-token model still predicts a token from the state before it.
  if (objective.needs_mask_id() && config.next_token && options.i64("shift") < 0 &&
      options.str("compat") == "none")
    shift = 1;
  if (origin.shift_chosen) shift = config.shift;
  model::AttentionKind attention = objective.attention(config);
  if (attention == model::AttentionKind::two_stream)
    attention = model::AttentionKind::block_causal; // the attention of decoding
  if (origin.attention_chosen && attention != config.attention) {
    log(LogLevel::warn,
        "the model keeps attention {}, which its option chose, and {} trains it with {}: option "
        "attention of the objective changes that",
        attention_name(config.attention), options.schema().kind(), attention_name(attention));
    attention = config.attention;
  }
  model.set_attention(attention, shift, options.i64("block_length"));
  model.set_objective(objective.name(),
                      objective.keeps_schedule() ? objective.schedule()->describe().dump() : "");
}

// Returns the cuts of the trained networks after which every pattern names whole stacks, and all
// layers of a stack have one rate.
model::Cuts borders_of_options(const model::ParamStore& params,
                               const std::vector<std::string>& trained, const Options& options) {
  std::vector<std::string> patterns = options.list("freeze");
  for (const ParameterGroup& group : parameter_groups(options)) patterns.push_back(group.pattern);
  model::Cuts borders = LayerRates(options, params).borders(trained);
  for (const std::string& pattern : patterns) {
    for (const auto& [network, layers] : params.borders_of(pattern)) {
      if (std::ranges::find(trained, network) != trained.end())
        borders[network].insert(layers.begin(), layers.end());
    }
  }
  return borders;
}

} // namespace

void prepare_model(model::Model& model, const noise::Objective& objective, const Options& options) {
  model::ParamStore& params = model.params();
  for (const auto& [name, config] : objective.new_parts(model.config())) {
    if (!model.parts().has(name))
      model::add_new_network(model, name, config, static_cast<uint64_t>(options.i64("seed")));
  }
  objective.filler().add_to(model, static_cast<uint64_t>(options.i64("seed")));
  objective.check_parts(model);
  std::vector<std::string> trained = objective.trained_parts();
  for (std::string& filler : model.parts().fillers()) trained.push_back(std::move(filler));
  const model::Cuts borders = borders_of_options(params, trained, options);

  const int64_t mask_id = objective.options().i64("mask_id");
  if (objective.needs_mask_id() && mask_id < 0) {
    model.ensure_mask_token();
  } else if (mask_id >= 0 && mask_id < model.config().vocab_size && !model.origin().mask_chosen) {
    model.set_mask_token(mask_id);
  }
  set_use(model, objective);
  params.cut_at(borders);
  const model::Selection selection =
      model.selection_of(objective.trained_parts(), options.list("freeze"));
  params.make_masters(
      [&](const model::ParamStore::Physical& entry) { return selection.trains(entry); });
}

} // namespace dllm::train
