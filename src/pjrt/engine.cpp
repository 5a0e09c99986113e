// The engine of kind pjrt, and the list of plugins.

#include "pjrt/engine.h"

#include "base/error.h"
#include "base/named_table.h"
#include "graph/engine.h"
#include "pjrt/engine_state.h"
#include "pjrt/plugin/plugin.h"
#include "pjrt/target/target.h"

#include <nlohmann/json.hpp>

#include <mutex>

namespace dllm::pjrt {

namespace {

class PjrtEngine final : public graph::Engine {
public:
  explicit PjrtEngine(std::shared_ptr<EngineState> state) : state_(std::move(state)) {}

  std::string kind() const override { return "pjrt"; }
  bool runs_ahead() const override { return true; }
  const graph::Mesh& mesh() const override { return state_->mesh(); }

  std::shared_ptr<graph::Program> compile(std::shared_ptr<const graph::Graph> graph) override {
    return std::make_shared<PjrtProgram>(state_, std::move(graph));
  }

  graph::BufferRef upload(const Tensor& tensor, bool share) override {
    return pjrt::upload(state_, tensor, share);
  }
  // The compiler chooses the form of weights, so keep_plain has no effect.
  graph::BufferRef upload_weight(const Tensor& tensor, bool, const Task*) override {
    return pjrt::upload(state_, tensor, !tensor.writable());
  }
  graph::BufferRef upload_cut(const Tensor& whole, bool share,
                              const graph::Layout& layout) override {
    return pjrt::upload(state_, whole, share, layout);
  }
  graph::BufferRef upload_weight_cut(const Tensor& whole, bool, const graph::Layout& layout,
                                     const Task*) override {
    return pjrt::upload(state_, whole, !whole.writable(), layout);
  }
  graph::BufferRef upload_part(const Tensor& part, bool share,
                               const graph::Layout& layout) override {
    return pjrt::upload_part(state_, part, share, layout);
  }
  graph::BufferRef upload_pieces(std::span<const Tensor> pieces, graph::AxisSet axes,
                                 bool share) override {
    return pjrt::upload_pieces(state_, pieces, axes, share);
  }

  int64_t processes() const override { return state_->processes().count(); }
  int64_t process() const override { return state_->processes().index(); }
  std::vector<std::string> exchange(const std::string& own, const Task* task) override {
    return state_->processes().exchange(own, task);
  }

  int64_t device_count() const override {
    return static_cast<int64_t>(state_->client().devices().size());
  }
  std::string device_name(int64_t index) const override {
    if (index < 0 || index >= device_count())
      fail(Code::out_of_range, "device {} does not exist, the engine has {}", index,
           device_count());
    return fmt::format("{}:{}", state_->client().platform_name(),
                       state_->client().devices()[static_cast<size_t>(index)].id());
  }

  Json describe() const override;
  void set_i64(std::string_view key, int64_t value) override;
  int64_t i64(std::string_view key) const override;

  double peak_flops() override {
    const std::lock_guard lock(measuring_);
    if (peak_flops_ == 0) peak_flops_ = measure_peak_flops(*state_);
    // The devices of a CPU plugin share the processors; one device uses all of them.
    return peak_flops_ * static_cast<double>(state_->on_cpu() ? 1 : mesh().ranks());
  }
  void trim() override { state_->runs().drain(); }

private:
  MemoryUse memory() const;
  Json device_json(const Device& device) const;

  std::shared_ptr<EngineState> state_;
  std::mutex measuring_;
  double peak_flops_ = 0;
};

// Returns the memory of the ranks here: the devices' own counts if they count, else the bytes of
// the arrays that are alive.
MemoryUse PjrtEngine::memory() const {
  MemoryUse all;
  for (size_t here = 0; here < state_->ranks_here(); ++here) {
    const auto use = state_->device(here).memory_use();
    if (!use) {
      const Counters& counters = state_->counters();
      return {counters.live_bytes.load(), counters.peak_bytes.load(), 0};
    }
    all.used += use->used;
    all.peak += use->peak;
    all.limit += use->limit;
  }
  return all;
}

Json PjrtEngine::device_json(const Device& device) const {
  Json made{{"name", fmt::format("{}:{}", state_->client().platform_name(), device.id())},
            {"kind", device.facts().kind},
            {"process", device.facts().process},
            {"memories", device.memory_kinds()}};
  if (const auto use = device.memory_use())
    made["memory"] = Json{{"used", use->used}, {"peak", use->peak}, {"limit", use->limit}};
  for (const auto& [name, value] : device.facts().attributes)
    made["attributes"][name] = value_text(value);
  return made;
}

Json PjrtEngine::describe() const {
  const Client& client = state_->client();
  const Plugin& plugin = client.plugin();
  const Counters& counters = state_->counters();
  Json devices = Json::array();
  for (const Device& device : client.devices()) devices.push_back(device_json(device));
  const MemoryUse use = memory();
  return Json{{"kind", "pjrt"},
              {"plugin", Json{{"path", plugin.path()},
                              {"api", fmt::format("0.{}", plugin.minor())},
                              {"xla", plugin.version("xla_version")},
                              {"stablehlo", plugin.version("stablehlo_current_version")},
                              {"stablehlo_minimum", plugin.version("stablehlo_minimum_version")}}},
              {"platform", client.platform_name()},
              {"platform_version", client.platform_version()},
              {"device", device_name(client.index_of(state_->device().get()))},
              {"devices", std::move(devices)},
              {"mesh", state_->mesh().text()},
              {"ranks", state_->mesh().ranks()},
              {"processes", processes()},
              {"compute", dtype_name(state_->emit_options().compute)},
              {"precision", state_->emit_options().precision},
              {"in_flight", state_->runs().limit()},
              {"memory", Json{{"used", use.used}, {"peak", use.peak}, {"limit", use.limit}}},
              {"cache", state_->cache().folder()},
              {"compiles", counters.compiles.load()},
              {"cache_hits", counters.cache_hits.load()},
              {"round_trips", counters.round_trips.load()}};
}

void PjrtEngine::set_i64(std::string_view key, int64_t value) {
  const OptionSpec& spec = graph::engine_schema().find(key);
  if (key != "pjrt.in_flight") {
    fail_with_hint("pjrt.in_flight can be changed", Code::failed_precondition,
                   "{} of an engine of kind pjrt is fixed when it is made", key);
  }
  if (static_cast<double>(value) < spec.min || static_cast<double>(value) > spec.max)
    fail(Code::out_of_range, "{} = {} is not between {} and {}", key, value, spec.min, spec.max);
  state_->runs().set_limit(static_cast<size_t>(value));
}

int64_t PjrtEngine::i64(std::string_view key) const {
  struct Number {
    const char* name;
    int64_t (*value)(const PjrtEngine&);
  };
  static constexpr Number kNumbers[] = {
      {"rank", [](const PjrtEngine& e) { return int64_t{e.state_->processes().first_rank()}; }},
      {"ranks", [](const PjrtEngine& e) { return int64_t{e.state_->mesh().ranks()}; }},
      {"threads", [](const PjrtEngine&) { return int64_t{0}; }}, // the plugin counts its own
      {"memory_used", [](const PjrtEngine& e) { return e.memory().used; }},
      {"memory_peak", [](const PjrtEngine& e) { return e.memory().peak; }},
      {"memory_limit", [](const PjrtEngine& e) { return e.memory().limit; }},
      {"compiles", [](const PjrtEngine& e) { return e.state_->counters().compiles.load(); }},
      {"cache_hits", [](const PjrtEngine& e) { return e.state_->counters().cache_hits.load(); }},
      {"round_trips", [](const PjrtEngine& e) { return e.state_->counters().round_trips.load(); }},
      {"pjrt.in_flight",
       [](const PjrtEngine& e) { return static_cast<int64_t>(e.state_->runs().limit()); }},
  };
  return need_named(kNumbers, key, &Number::name, {"number", "of an engine"}).value(*this);
}

} // namespace

std::shared_ptr<graph::Engine> make_engine(const Options& options) {
  const bool is_one = options.str("processes") == "one";
  if (!options.str("target").empty()) {
    if (is_one) return make_target_engine(options);
    fail_with_hint("leave processes out", Code::unimplemented,
                   "only one process compiles for target {}, but option processes is {}",
                   options.str("target"), options.str("processes"));
  }
  if (!is_one) return make_engine(options, comm::make_process_link());
  return std::make_shared<PjrtEngine>(std::make_shared<EngineState>(options));
}

std::shared_ptr<graph::Engine> make_engine(const Options& options, comm::ProcessLink link) {
  return std::make_shared<PjrtEngine>(std::make_shared<EngineState>(options, std::move(link)));
}

Json list_plugins() {
  Json all = Json::array();
  for (const PluginSearch& search : find_plugins()) {
    Json one = {
        {"platform", search.platform}, {"paths", search.paths}, {"packages", search.packages}};
    if (search.paths.empty()) one["missing"] = "no plugin is in " + search.looked_in;
    all.push_back(std::move(one));
  }
  return all;
}

Json describe_plugin(const std::string& name) {
  const Plugin& plugin = Plugin::load(find_plugin(name));
  Json attributes = Json::object();
  for (const auto& [key, value] : plugin.attributes()) attributes[key] = value_text(value);
  return {{"path", plugin.path()},
          {"api", "0." + std::to_string(plugin.minor())},
          {"stablehlo", plugin.version("stablehlo_current_version")},
          {"attributes", std::move(attributes)}};
}

} // namespace dllm::pjrt
