// The engine of a target compiles and plans for hardware that this machine does not have.

#include "base/error.h"
#include "base/files.h"
#include "base/named_table.h"
#include "base/number.h"
#include "graph/engine.h"
#include "graph/mesh_options.h"
#include "pjrt/emit/emit.h"
#include "pjrt/engine_state.h"
#include "pjrt/lower/lower.h"
#include "pjrt/plugin/client.h"
#include "pjrt/plugin/compile.h"
#include "pjrt/plugin/plugin.h"
#include "pjrt/target/target.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace dllm::pjrt {

namespace {

// Shared by the engine and its programs. Any thread.
struct TargetState {
  Target target;
  std::unique_ptr<const Topology> topology;
  EmitOptions emit;
  CompileOptions compile;
  std::atomic<int64_t> compiles{0};

  int64_t memory_limit() const { return topology->memory_limit() / target.memory_sharers(); }
};

[[noreturn]] void fail_nothing_runs(const Target& target) {
  fail_with_hint("leave engine option target out to run on this machine; an engine with a target "
                 "only compiles and plans",
                 Code::failed_precondition,
                 "an engine of target {} has no device to hold or run anything", target.text);
}

Compiled compile_for(const TargetState& state, const std::string& program) {
  try {
    return state.topology->compile(program, state.compile);
  } catch (const Error& error) {
    if (error.code() == Code::resource_exhausted) {
      throw Error(error.code(), explain_no_room(error.text()),
                  "try a smaller batch or length, bf16, remat, a larger mesh");
    }
    if (error.code() == Code::unavailable && state.target.maker == Target::Maker::cuda) {
      throw Error(error.code(), error.text(),
                  "the compiler needs ptxas and libdevice: scripts/fetch-plugins cuda");
    }
    throw;
  }
}

class TargetProgram final : public graph::Program {
public:
  TargetProgram(std::shared_ptr<TargetState> state, std::shared_ptr<const graph::Graph> source)
      : state_(std::move(state)), source_(std::move(source)),
        program_(emit(*lower(*source_), state_->emit)), compiled_(build()) {
    graph::CompiledReport report = compiler_report(compiled_);
    report.seconds = seconds_;
    report.device_bytes = state_->memory_limit();
    report_ = make_report(*source_, std::move(report));
  }

  const graph::Graph& graph() const override { return *source_; }
  const graph::PlanReport& plan() const override { return report_; }
  std::vector<graph::BufferRef> run(std::span<const graph::BufferRef>, const Task*,
                                    graph::StopRule) override {
    fail_nothing_runs(state_->target);
  }
  std::string text(std::string_view form) const override {
    if (form == "stablehlo") return program_;
    if (form == "optimized") return hlo_text(compiled_.optimized_program(), "hlo_with_config");
    return Program::text(form);
  }

private:
  Compiled build() {
    const auto started = std::chrono::steady_clock::now();
    Compiled made = compile_for(*state_, program_);
    ++state_->compiles;
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    return made;
  }

  std::shared_ptr<TargetState> state_;
  std::shared_ptr<const graph::Graph> source_;
  std::string program_; // StableHLO
  double seconds_ = 0;  // build() sets it
  Compiled compiled_;
  graph::PlanReport report_;
};

class TargetEngine final : public graph::Engine {
public:
  explicit TargetEngine(std::shared_ptr<TargetState> state) : state_(std::move(state)) {}

  std::string kind() const override { return "pjrt"; }
  bool runs_ahead() const override { return true; } // so graphs are the same as for a device
  const graph::Mesh& mesh() const override { return state_->emit.mesh; }
  std::shared_ptr<graph::Program> compile(std::shared_ptr<const graph::Graph> graph) override {
    return std::make_shared<TargetProgram>(state_, std::move(graph));
  }
  graph::BufferRef upload(const Tensor&, bool) override { fail_nothing_runs(state_->target); }
  graph::BufferRef upload_weight(const Tensor&, bool, const Task*) override {
    fail_nothing_runs(state_->target);
  }

  int64_t device_count() const override {
    return static_cast<int64_t>(state_->topology->devices().size());
  }
  std::string device_name(int64_t index) const override {
    if (index < 0 || index >= device_count()) {
      fail(Code::out_of_range, "device {} does not exist, the target has {}", index,
           device_count());
    }
    return fmt::format("{}:{}", state_->target.text,
                       state_->topology->devices()[static_cast<size_t>(index)].id);
  }
  Json describe() const override;
  void set_i64(std::string_view key, int64_t) override {
    fail(Code::failed_precondition, "{} of an engine of target {} is fixed when it is made", key,
         state_->target.text);
  }
  int64_t i64(std::string_view key) const override;
  double peak_flops() override { return 0; } // not measured
  void trim() override {}

private:
  std::shared_ptr<TargetState> state_;
};

Json TargetEngine::describe() const {
  const Topology& topology = *state_->topology;
  const DeviceFacts& first = topology.devices().front();
  Json attributes = Json::object();
  for (const auto& [name, value] : first.attributes) attributes[name] = value_text(value);
  return Json{
      {"kind", "pjrt"},
      {"target", state_->target.text},
      {"plugin",
       {{"path", topology.plugin().path()},
        {"api", fmt::format("0.{}", topology.plugin().minor())}}},
      {"platform", topology.platform_name()},
      {"devices",
       {{{"kind", first.kind}, {"count", device_count()}, {"attributes", std::move(attributes)}}}},
      {"mesh", mesh().text()},
      {"ranks", mesh().ranks()},
      {"compute", dtype_name(state_->emit.compute)},
      {"precision", state_->emit.precision},
      {"memory", {{"used", 0}, {"peak", 0}, {"limit", state_->memory_limit()}}},
      {"compiles", state_->compiles.load()}};
}

int64_t TargetEngine::i64(std::string_view key) const {
  struct Number {
    const char* name;
    int64_t (*value)(const TargetEngine&);
  };
  static constexpr auto kZero = [](const TargetEngine&) { return int64_t{0}; };
  static constexpr Number kNumbers[] = {
      {"rank", kZero},
      {"ranks", [](const TargetEngine& e) { return int64_t{e.mesh().ranks()}; }},
      {"threads", kZero},
      {"memory_used", kZero},
      {"memory_peak", kZero},
      {"memory_limit", [](const TargetEngine& e) { return e.state_->memory_limit(); }},
      {"compiles", [](const TargetEngine& e) { return int64_t{e.state_->compiles.load()}; }},
      {"cache_hits", kZero},
      {"round_trips", kZero},
  };
  return need_named(kNumbers, key, &Number::name, {"number", "of an engine of a target"})
      .value(*this);
}

// Returns the path of the plugin that option plugin names, else of the target's own.
std::string plugin_of(const Target& target, const Options& options) {
  if (!options.str("plugin").empty()) return find_plugin(options.str("plugin"));
  try {
    return find_plugin(target.plugin());
  } catch (const Error& error) {
    throw Error(
        error.code(), fmt::format("[target] {}: {}", target.text, error.text()),
        fmt::format("scripts/fetch-plugins {} gets it; or {}", target.plugin(), error.hint()));
  }
}

} // namespace

std::shared_ptr<graph::Engine> make_target_engine(const Options& options) {
  auto state = std::make_shared<TargetState>();
  state->target = parse_target(options.str("target"));
  state->emit.mesh = graph::mesh_of(options);
  const Target& target = state->target;
  const std::string path = plugin_of(target, options);
  if (target.maker == Target::Maker::cuda) use_cuda_folder(cuda_folder(path));
  const Plugin& plugin = Plugin::load(path, true);
  state->topology = std::make_unique<const Topology>(plugin, target.topology_name(),
                                                     target.topology_options(path));
  state->emit.compute = dtype_from_name(options.str("pjrt.compute"));
  state->emit.precision = options.str("pjrt.precision");
  const std::vector<DeviceFacts>& devices = state->topology->devices();
  graph::expect_devices(state->emit.mesh, std::ssize(devices), "target " + target.text,
                        "name a larger target");
  state->compile.replicas = state->emit.mesh.ranks();
  for (int64_t rank = 0; rank < state->compile.replicas; ++rank)
    state->compile.devices.push_back(devices[static_cast<size_t>(rank)].id);
  for (const std::string& flag : options.list("pjrt.flags"))
    state->compile.flags.push_back(parse_flag(flag));
  return std::make_shared<TargetEngine>(std::move(state));
}

// Compilers report the sizes of a program that is too big only in their messages.

namespace {

// Reads pieces of limited length from the front of a text.
class Words {
public:
  explicit Words(std::string_view text) : text_(text) {}

  bool skip(std::string_view word) {
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  std::string_view take(const char* characters, size_t most) {
    const size_t end = std::min({text_.find_first_not_of(characters), text_.size(), most});
    const std::string_view taken = text_.substr(0, end);
    text_.remove_prefix(end);
    return taken;
  }
  // Reads "48.00G", "512.5M" or "1024". Units are powers of 1024. Returns nothing for a number that
  // no memory has.
  std::optional<int64_t> take_bytes() {
    const std::string_view number = take("0123456789.", 24);
    if (number.empty()) return std::nullopt;
    double value = parse_number(number).value_or(0);
    const std::string_view unit = take("KMGT", 1);
    for (const char larger : std::string_view("KMGT")) {
      if (unit.empty()) break;
      value *= 1024;
      if (unit[0] == larger) break;
    }
    constexpr double kMost = 9e18; // below 2^63
    if (!(value < kMost)) return std::nullopt;
    return static_cast<int64_t>(value);
  }

private:
  std::string_view text_;
};

struct Room {
  int64_t needs, has;
};

// Reads "(48.00G) exceeds available HBM (15.75G)".
std::optional<Room> read_exceeds(Words words) {
  constexpr const char* kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  if (!words.skip("(")) return std::nullopt;
  const std::optional<int64_t> needs = words.take_bytes();
  if (!needs || !words.skip(") exceeds available ")) return std::nullopt;
  if (words.take(kLetters, 40).empty() || !words.skip(" (")) return std::nullopt;
  const std::optional<int64_t> has = words.take_bytes();
  if (!has || !words.skip(")")) return std::nullopt;
  return Room{*needs, *has};
}

// Reads "Used 20.5G of 15.75G".
std::optional<Room> read_used(Words words) {
  if (!words.skip("Used ") && !words.skip("used ")) return std::nullopt;
  const std::optional<int64_t> needs = words.take_bytes();
  if (!needs || !words.skip(" of ")) return std::nullopt;
  const std::optional<int64_t> has = words.take_bytes();
  return has ? std::optional(Room{*needs, *has}) : std::nullopt;
}

} // namespace

// libtpu reports "... required for HLO temporaries (48.00G) exceeds available HBM (15.75G)"; older
// ones report "Used 20.5G of 15.75G hbm".
std::string explain_no_room(const std::string& text) {
  for (const auto read : {read_exceeds, read_used}) {
    for (size_t at = 0; at < text.size(); ++at) {
      if (const auto room = read(Words(std::string_view(text).substr(at)))) {
        return fmt::format("does not fit: needs {} bytes, has {} bytes: {}", room->needs, room->has,
                           text);
      }
    }
  }
  return text;
}

} // namespace dllm::pjrt
