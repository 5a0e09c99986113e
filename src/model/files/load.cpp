#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/store/objects.h"
#include "ckpt/gguf/gguf_parts.h"
#include "ckpt/model_place.h"
#include "hub/cache/cache.h"
#include "model/adapters/adapter_file.h"
#include "model/adapters/adapter_save.h"
#include "model/files/opened_network.h"
#include "model/files/save.h"
#include "model/files/weights.h"
#include "model/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dllm::model {
namespace {

constexpr const char* kConfig = kConfigFile;

} // namespace

std::vector<std::pair<size_t, const ParamSpec*>>
reserve_largest_first(Model& model, const std::vector<ParamSpec>& specs,
                      const std::function<const WeightFormat&(const ParamSpec&)>& form_of) {
  std::vector<std::pair<size_t, const ParamSpec*>> order;
  for (const ParamSpec& spec : specs)
    order.emplace_back(model.params().reserve(spec, form_of(spec)), &spec);
  std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    return weight_bytes(form_of(*a.second), a.second->shape()) >
           weight_bytes(form_of(*b.second), b.second->shape());
  });
  return order;
}

OpenedModel open_model(const Source& source) {
  OpenedModel opened;
  if (source.has(kConfig)) {
    opened.config =
        config_from_text(source.open(kConfig).text(), source.describe() + "/" + kConfig);
    return opened;
  }
  if (!ckpt::holds_gguf(source)) {
    if (source.has("adapter_config.json")) {
      fail_with_hint("name its model, and this folder with option adapter (--model.adapter)",
                     Code::not_found, "{} is an adapter and not a whole model", source.describe());
    }
    fail_with_hint("give a model folder with config.json and model.safetensors, or one .gguf file",
                   Code::not_found, "{} has no {} and no .gguf file", source.describe(), kConfig);
  }
  const ckpt::GgufParts parts = ckpt::find_gguf(source);
  for (const std::string& name : parts.left_out)
    log(LogLevel::warn, "{}: {} is left out", source.describe(), name);
  opened.gguf = ckpt::open_gguf(source, parts);
  opened.config = config_from_gguf(*opened.gguf);
  return opened;
}

std::unique_ptr<WeightSource> open_weights(OpenedModel& opened, const Source& source,
                                           const Task* task) {
  if (opened.gguf) return open_gguf_weights(opened.gguf, opened.config);
  auto weights = open_weight_files(source, own_head_name(opened.config));
  untie_own_head(opened.config, *weights, source.describe(), task);
  return weights;
}

ModelConfig read_config(const Source& source) {
  OpenedModel opened = open_model(source);
  return opened.config;
}

namespace {

// An adapter to add, opened before the weights, which take longer.
struct OpenedAdapter {
  std::string name; // the part is "adapter:<name>"
  AdapterFile file;
};

std::vector<OpenedAdapter> open_adapters(const std::vector<ckpt::ModelPlace::Adapter>& places,
                                         const std::string& option) {
  std::vector<OpenedAdapter> adapters;
  const std::string added = AdapterOptions().name;
  for (const ckpt::ModelPlace::Adapter& place : places) {
    const bool is_named = place.name.starts_with(kAdapterPart);
    const std::string name = is_named ? place.name.substr(kAdapterPart.size()) : place.name;
    if (!option.empty() && name == added) {
      fail_with_hint("leave option adapter out, or load the base and the adapter",
                     Code::already_exists, "the run has an adapter named {} already", name);
    }
    adapters.push_back({name, AdapterFile(place.folder)});
  }
  if (!option.empty()) adapters.push_back({added, AdapterFile(option)});
  return adapters;
}

std::shared_ptr<Model> load_from(const std::shared_ptr<graph::Engine>& engine, const Source& source,
                                 const Options& options, const ckpt::ModelPlace& place,
                                 Task* task) {
  const store::TransferTask transfers(task);
  check_task(task);
  OpenedNetwork base(*engine, source, options, place, kBasePart, task);
  const std::vector<OpenedAdapter> adapters = open_adapters(place.adapters, options.str("adapter"));
  const auto networks = open_networks(*engine, options, place, task);
  OtherBytes count;
  for (const OpenedAdapter& adapter : adapters) count.later += adapter.file.bytes();
  for (const auto& network : networks) count.later += network->bytes();

  const std::shared_ptr<Model> model = base.load(engine, count, task);
  for (const OpenedAdapter& adapter : adapters) {
    count.later -= adapter.file.bytes();
    adapter.file.add_to(*model, adapter.name, task, {count.before, count.later});
    count.before += adapter.file.bytes();
  }
  for (const auto& network : networks) {
    count.later -= network->bytes();
    network->add_to(*model, count, task);
  }
  return model;
}

// Fails when a part that a checkpoint refers to is not the one that its run read.
void check_part(const std::string& part, const std::string& path, const std::string& digest) {
  const std::optional<PartOrigin> found = origin_at(path);
  if (found && found->has_digest(digest)) return;
  const std::optional<hub::Name> hub = hub::name_of_snapshot(path);
  fail_with_hint(
      !found && hub ? "dllm pull " + text_of(*hub) + " brings the files back"
                    : "put the files back as they were, or load a base and give the checkpoint's "
                      "adapter as option adapter",
      Code::failed_precondition, "the checkpoint refers to {} for part {}, which {}", path, part,
      found ? fmt::format("holds other numbers now: digest {}, and {} in the run", found->digest,
                          digest)
            : "cannot be read");
}

void check_references(const ckpt::ModelPlace& place) {
  if (place.reference) check_part(kBasePart, place.base, place.reference->digest);
  for (const ckpt::ModelPlace::Adapter& adapter : place.adapters) {
    if (adapter.is_reference()) check_part(adapter.name, adapter.folder, adapter.digest);
  }
  for (const ckpt::ModelPlace::Network& network : place.networks) {
    if (network.reference && network.name != kTeacherPart)
      check_part(network.name, network.folder, network.reference->digest);
  }
}

} // namespace

std::shared_ptr<Model> load_model(std::shared_ptr<graph::Engine> engine, const Source& source,
                                  const Options& options, Task* task) {
  return load_from(engine, source, options, {}, task);
}

namespace {

std::shared_ptr<Model> load_at(std::shared_ptr<graph::Engine> engine, const std::string& path,
                               const Options& options, Task* task) {
  ckpt::ModelPlace place = ckpt::model_place(path);
  const std::string& adapter = options.str("adapter");
  Options own = options;
  if (const std::string inside = join_path(place.base, adapter);
      !adapter.empty() && file_exists(join_path(inside, "adapter_config.json")))
    own.set_str("adapter", inside);
  check_references(place);
  if (!adapter.empty() && !place.use) read_use(own.str("adapter"), place);
  const bool is_live = options.str("weights") == "live";
  const auto before = is_live ? origin_at(place.base) : std::nullopt;
  std::shared_ptr<Model> model =
      load_from(engine, *ckpt::open_model_source(place.base), own, place, task);
  // Averages are not the numbers of the folder. A folder that changed meanwhile may hold other
  // numbers than those that were read.
  std::optional<PartOrigin> after = origin_at(place.base);
  if (!before || !after || before->digest != after->digest) return model;
  after->has_new_mask = has_new_mask(place, options);
  model->set_origin_of(kBasePart, *after);
  if (!adapter.empty()) warn_of_other_base(*model, own.str("adapter"));
  return model;
}

} // namespace

std::shared_ptr<Model> load_model(std::shared_ptr<graph::Engine> engine, const std::string& path,
                                  const Options& options, Task* task) {
  const store::TransferTask transfers(task);
  std::shared_ptr<Model> model;
  ckpt::read_latest(path, [&] { model = load_at(engine, path, options, task); });
  return model;
}

} // namespace dllm::model
