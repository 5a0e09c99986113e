// The side files and numbers of a model, and its forward pass for a host.
#include "model/model.h"

#include "base/error.h"
#include "base/named_table.h"
#include "graph/ops.h"
#include "model/network/token_batch.h"
#include "runtime/programs.h"
#include "tensor/batch.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

namespace dllm::model {

constexpr size_t kKeptForwardPrograms = 4;

Model::Model(std::shared_ptr<graph::Engine> engine, ModelConfig config)
    : engine_(std::move(engine)), parts_(config), params_(engine_),
      forward_cache_(kKeptForwardPrograms) {
  for (auto& [name, network] : part_configs(config)) {
    Part part;
    part.name = name;
    part.config = std::move(network);
    parts_.add(std::move(part));
  }
  parts_.base().config.parts.clear();
}

Model::~Model() = default;

Model::SideFiles Model::side_files() const {
  const std::lock_guard lock(words_);
  return side_files_;
}

ModelConfig Model::config_now() const {
  const std::lock_guard lock(words_);
  return parts_.base().config;
}

void Model::set_side_file(const std::string& name, Bytes content) {
  const std::lock_guard lock(words_);
  const auto found = std::find_if(side_files_.begin(), side_files_.end(),
                                  [&](const auto& entry) { return entry.first == name; });
  if (found != side_files_.end())
    found->second = std::move(content);
  else
    side_files_.emplace_back(name, std::move(content));
  token_facts_ = nullptr;
}

void Model::set_objective(const std::string& name, const std::string& schedule) {
  const std::lock_guard lock(words_);
  parts_.base().config.objective = name;
  parts_.base().config.schedule = schedule;
  parts_.base().config.next_token = false;
}

void Model::set_filler(const FillerConfig& filler) {
  {
    const std::lock_guard lock(words_);
    parts_.base().config.filler = filler;
  }
  forget_programs();
}

void Model::set_attention(AttentionKind attention, int shift, int64_t block_length) {
  ModelConfig& config = parts_.base().config;
  const int64_t block = block_length > 0 ? block_length : config.block_length;
  if (attention == config.attention && shift == config.shift && block == config.block_length)
    return;
  {
    const std::lock_guard lock(words_);
    config.attention = attention;
    config.shift = shift;
    config.block_length = block;
  }
  forward_cache_.clear();
  params_.bump();
}

void Model::forget_programs() {
  forward_cache_.clear();
  params_.bump_parts();
}

Selection Model::selection_of(const std::vector<std::string>& parts,
                              std::vector<std::string> frozen) const {
  std::set<std::string> trained(parts.begin(), parts.end());
  const std::vector<std::string> adapters = parts_.adapters();
  if (trained.contains(kBasePart) && !adapters.empty()) {
    trained.erase(kBasePart);
    trained.insert(adapters.begin(), adapters.end());
  }
  const auto has = [&](std::string_view name) {
    return std::ranges::find(parts, name) != parts.end();
  };
  if (has(kBasePart) || has(kFillerPart)) {
    const std::vector<std::string> fillers = parts_.fillers();
    trained.insert(fillers.begin(), fillers.end());
  }
  return Selection(std::move(trained), std::move(frozen));
}

void Model::add_selection(const std::shared_ptr<const Selection>& selection) {
  const std::lock_guard lock(words_);
  std::erase_if(selections_, [](const auto& other) { return other.expired(); });
  selections_.push_back(selection);
}

ParamStore::Test Model::trained(const std::vector<std::string>& parts) const {
  std::vector<std::shared_ptr<const Selection>> selections;
  {
    const std::lock_guard lock(words_);
    for (const std::weak_ptr<const Selection>& weak : selections_) {
      if (std::shared_ptr<const Selection> living = weak.lock())
        selections.push_back(std::move(living));
    }
  }
  if (selections.empty())
    selections.push_back(std::make_shared<const Selection>(selection_of(parts)));
  return [selections](const ParamStore::Physical& entry) {
    return std::ranges::any_of(selections,
                               [&](const auto& selection) { return selection->trains(entry); });
  };
}

void Model::add_part(Part part, const std::function<void()>& fill) {
  const std::string name = part.name;
  const bool is_adapter = part.kind == PartKind::adapter;
  parts_.add(std::move(part));
  try {
    fill();
  } catch (...) {
    drop_part(name);
    throw;
  }
  // A program of the base without the adapter, such as a trainer's, computes another network.
  if (is_adapter) params_.bump_list();
  forget_programs();
}

void Model::add_network(const std::string& name, const Model& other) {
  if (&other.engine() != engine_.get()) {
    fail_with_hint("load both models on one engine", Code::invalid_argument,
                   "{} is on another engine than the model to which it is added", name);
  }
  if (!other.parts().adapters().empty()) {
    fail_with_hint("merge its adapters first, or remove them", Code::failed_precondition,
                   "the model that is added as {} has adapters, which its network lacks", name);
  }
  if (other.config().filler.on()) {
    fail_with_hint("train it without one", Code::unimplemented,
                   "the model that is added as {} has a mask filler, which its network lacks",
                   name);
  }
  std::vector<ParamStore::Physical> entries = other.params().entries();
  std::erase_if(entries, [](const auto& entry) { return entry.spec.part != kBasePart; });
  Part part;
  part.name = name;
  part.config = other.config_now();
  // After the entries: a step of the other model in between leaves no origin.
  const std::optional<PartOrigin> origin = other.origin_of(kBasePart);
  const std::set<int64_t> cuts = other.params().cuts_of(kBasePart);
  add_part(std::move(part), [&] { params_.share_part(name, entries, cuts); });
  if (origin) set_origin_of(name, *origin);
}

void Model::set_origin_of(const std::string& part, PartOrigin origin) {
  origin.changes = params_.changes(part);
  parts_.set_origin(part, origin);
}

std::optional<PartOrigin> Model::origin_of(const std::string& part) const {
  std::optional<PartOrigin> origin = parts_.origin(part);
  if (origin && origin->changes != params_.changes(part)) origin.reset();
  return origin;
}

void Model::remove_network(const std::string& name) {
  const std::vector<std::string> networks = parts_.networks();
  if (std::ranges::find(networks, name) != networks.end()) return drop_part(name);
  const char* advice = networks.empty() ? "no network was added" : "";
  fail_unnamed({"added network", "in the model", advice}, name, networks);
}

void Model::drop_part(const std::string& name) {
  params_.drop_part(name);
  parts_.drop(name);
  forget_programs();
}

void Model::scale_part(const std::string& name, float scale,
                       const std::function<float(const ParamSpec&)>& factor) {
  params_.set_factors(name, factor);
  parts_.set_scale(name, scale);
  forget_programs();
}

void Model::restore(Backup before) {
  {
    const std::lock_guard lock(words_);
    parts_.base().config = std::move(before.config);
    side_files_ = std::move(before.side_files);
  }
  for (const std::string& name : parts_.names()) {
    if (std::ranges::find(before.parts, name) == before.parts.end()) parts_.drop(name);
  }
  params_.restore(std::move(before.params));
  forward_cache_.clear();
}

int64_t Model::i64(const std::string& key) const {
  const ModelConfig config = config_now();
  if (key == "vocab") return config.vocab_size;
  if (key == "hidden") return config.hidden_size;
  if (key == "layers") return config.layers;
  if (key == "max_length") return config.max_positions;
  if (key == "params") return params_.parameter_count();
  if (key == "bytes") return params_.bytes();
  if (key == "mask_id") {
    if (config.mask_token_id >= 0) return config.mask_token_id;
    fail_with_hint("set model.mask_token, or train the model, which adds one", Code::not_found,
                   "the model has no mask token");
  }
  fail_unnamed({"number", "of a model"}, key,
               {"vocab", "hidden", "layers", "max_length", "mask_id", "params", "bytes"});
}

Json Model::describe() const {
  const ModelConfig config = config_now();
  Json made = {{"family", config.family},
               {"attention", attention_name(config.attention)},
               {"shift", config.shift},
               {"mask_token_id", config.mask_token_id},
               {"block_length", config.block_length},
               {"vocab", config.vocab_size},
               {"hidden", config.hidden_size},
               {"max_length", config.max_positions},
               {"runs", Json::array({{{"kind", config.family}, {"layers", config.layers}}})},
               {"params", params_.parameter_count()},
               {"bytes", params_.bytes()},
               {"version", params_.version()},
               {"parts", parts_.names()},
               {"end_tokens", token_facts()->ends},
               {"generation", generation()},
               {"storage", params_.describe(trained())}};
  if (!config.objective.empty()) made["objective"] = config.objective;
  if (const std::string why = params_.lost(); !why.empty()) made["lost"] = why;
  return made;
}

std::shared_ptr<Model> clone_model(const Model& model,
                                   const std::function<Tensor(size_t index)>& instead) {
  const auto copy = std::make_shared<Model>(model.engine_ref(), model.config_now());
  copy->params().set_checks(model.params().checks());
  copy->params().set_cuts(model.params().cuts());
  for (const std::string& name : model.parts().names()) {
    if (name == kBasePart) continue;
    Part part = *model.parts().find(name);
    part.origin.reset(); // the copy has the numbers by value
    copy->add_part(std::move(part), [] {});
  }
  const std::vector<ParamStore::Physical> entries = model.params().entries();
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].scale_of >= 0) continue;
    const Tensor other = instead ? instead(i) : Tensor();
    ParamForm form(entries[i].spec, *entries[i].format);
    form.values = (other.defined() ? other : entries[i].buffer->read()).clone();
    if (form.scale.defined()) form.scale = entries[i + 1].buffer->read().clone();
    copy->params().add(entries[i].spec, form);
  }
  for (const auto& [name, content] : model.side_files()) copy->set_side_file(name, content);
  copy->set_origin(model.origin());
  return copy;
}

std::shared_ptr<Model> share_model(const Model& model) {
  const auto made = std::make_shared<Model>(model.engine_ref(), model.config_now());
  made->params().set_checks(model.params().checks());
  for (const std::string& name : model.parts().names()) {
    if (name != kBasePart) made->add_part(*model.parts().find(name), [] {});
  }
  made->params().restore(model.params().backup());
  for (const auto& [name, content] : model.side_files()) made->set_side_file(name, content);
  made->set_origin(model.origin());
  if (const std::optional<PartOrigin> origin = model.origin_of(kBasePart))
    made->set_origin_of(kBasePart, *origin);
  return made;
}

namespace {

// The options of one call, completed by the model's own settings.
struct Call {
  AttentionKind attention;
  int shift = 0;
  int64_t block = 0;
  bool logits = false, hidden = false, layers = false, heads = false, empty_average = false;
};

Call resolve(const ModelConfig& config, const Options& options) {
  Call call;
  call.attention = attention_from_name(options.str("attention"));
  if (call.attention == AttentionKind::automatic) call.attention = config.attention;
  call.shift = options.i64("shift") >= 0 ? static_cast<int>(options.i64("shift")) : config.shift;
  call.block = options.i64("block_length") > 0 ? options.i64("block_length") : config.block_length;
  call.empty_average = options.boolean("empty_average");
  for (const std::string& name : options.list("outputs")) {
    if (name == "logits")
      call.logits = true;
    else if (name == "hidden")
      call.hidden = true;
    else if (name == "layers")
      call.layers = true;
    else if (name == "heads")
      call.heads = true;
    else
      fail_unnamed({"output", "", "", Code::invalid_argument}, name,
                   {"logits", "hidden", "layers", "heads"});
  }
  return call;
}

std::string key_of(const ModelConfig& config, const ParamStore& params, const PartList& parts,
                   const Call& call, const Batch& feed) {
  std::string key = fmt::format("{} {} {} {} {} {} {} v{}", attention_name(call.attention),
                                call.shift, call.logits, call.hidden, call.layers, call.heads,
                                call.empty_average, config.vocab_size);
  key += " " + parts.text() + " " + runtime::feed_signature(feed);
  for (const ParamStore::Physical& entry : params.physical()) key += entry.format->name;
  return key;
}

// Shifts rows so that row i predicts token i. With shift 1 it is the row of the token before.
graph::Value shifted(graph::Value logits) {
  const int64_t seq = logits.dim(1);
  if (seq == 1) return logits;
  return graph::concat(
      {graph::slice_axis(logits, 1, 0, 1), graph::slice_axis(logits, 1, 0, seq - 1)}, 1);
}

std::shared_ptr<graph::Program> compile(Model& model, const PartList& parts, const Call& call,
                                        const Batch& feed) {
  const auto graph = std::make_shared<graph::Graph>("forward");
  Builder builder(*graph, model, parts);
  const std::map<std::string, graph::Value> values = runtime::feed_inputs(*graph, feed);
  const ForwardInputs inputs = forward_inputs(values, call.attention, call.empty_average);
  const ForwardOutputs result = builder.forward(inputs, call.layers);
  if (call.logits) {
    const graph::Value logits = builder.logits(result.hidden);
    graph->output("logits", call.shift == 1 ? shifted(logits) : logits);
  }
  if (call.hidden) graph->output("hidden", result.hidden);
  if (call.layers) {
    std::vector<graph::Value> taps;
    for (const graph::Value& tap : result.taps)
      taps.push_back(graph::reshape(tap, tap.shape().with_front(1)));
    graph->output("layers", graph::concat(taps, 0));
  }
  for (const HeadConfig& head : builder.config().other_heads) {
    if (!call.heads) break;
    const Head own = builder.head(head.name);
    graph->output("heads." + head.name, graph::softcap(product(own, result.hidden), own.softcap));
  }
  return model.engine().compile(graph);
}

} // namespace

const Schema& forward_schema() {
  static const Schema schema(
      "forward",
      {option_choice("attention", "auto",
                     {"auto", "causal", "bidirectional", "block_causal", "two_stream"},
                     "Attention of a token; auto: the model's own."),
       option_i64("shift", -1, -1, 1,
                  "1: logits of row i come from the state before it; -1: the model's own."),
       option_i64("block_length", 0, 0, 1 << 24,
                  "Block of block_causal and two_stream; 0: the model's own."),
       option_list("outputs", {"logits"},
                   "Arrays of the result: logits, hidden, layers, heads (heads.NAME of every other "
                   "head)."),
       option_bool("empty_average", false,
                   "A token that sees nothing averages all values, as dllm-jax does.")});
  return schema;
}

Batch forward(Model& model, const Batch& batch, Task* task) {
  return forward(model, batch, Options(forward_schema()), task);
}

Batch forward(Model& model, const Batch& batch, const Options& options, Task* task) {
  check_task(task);
  const Call call = resolve(model.config(), options);
  const TokenBatch rows = parse_tokens(batch, token_rules(TokenUse::model_input, model.config()));
  const Batch feed = input_arrays(rows, call.attention, call.block);
  const PartList parts = model.reading();
  const std::string key = key_of(model.config(), model.params(), parts, call, feed);
  const auto program =
      model.forward_cache().get(key, [&] { return compile(model, parts, call, feed); });
  runtime::Arguments arguments(program);
  arguments.share_parameters(model.params().snapshot(parts, nullptr, task));
  arguments.upload(model.engine(), feed);
  const std::vector<graph::BufferRef> results = arguments.run(task);
  Batch answer;
  for (size_t i = 0; i < results.size(); ++i)
    answer.set(program->graph().outputs()[i].name, results[i]->read());
  return answer;
}

} // namespace dllm::model
