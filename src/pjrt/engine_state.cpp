// The state of an engine: its devices on all processes, and how it builds programs.

#include "pjrt/engine_state.h"

#include "base/error.h"
#include "base/log.h"
#include "graph/mesh_options.h"
#include "pjrt/cache/executable_cache.h"
#include "pjrt/plugin/client.h"
#include "pjrt/plugin/plugin.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>

namespace dllm::pjrt {

namespace {

// Adds the options by which a plugin gets the index of the process and their number. Plugins do not
// have these options if they find the other processes themselves (libtpu) or support only one
// (CPUs).
NamedValues with_process(NamedValues values, const Processes& processes) {
  values.try_emplace("node_id", processes.index());
  values.try_emplace("num_nodes", processes.count());
  return values;
}

bool is_refused_name(const Error& error) {
  return error.code() == Code::invalid_argument &&
         (error.text().find("node_id") != std::string::npos ||
          error.text().find("num_nodes") != std::string::npos);
}

std::shared_ptr<const Client> create_client(const Plugin& plugin, const NamedValues& values,
                                            const Processes& processes) {
  if (!processes.are_several()) return Client::create(plugin, values);
  try {
    return Client::create(plugin, with_process(values, processes), processes.store());
  } catch (const Error& error) {
    if (!is_refused_name(error)) throw;
    log(LogLevel::debug, "pjrt: {} has no option for processes: {}", plugin.path(), error.text());
  }
  return Client::create(plugin, values, processes.store());
}

// Creates a client. Plugins report missing hardware with different codes, which become unavailable.
std::shared_ptr<const Client> make_client(const Plugin& plugin, const NamedValues& values,
                                          const Processes& processes) {
  try {
    return create_client(plugin, values, processes);
  } catch (const Error& error) {
    // The other processes may wait for a key of this process.
    if (processes.are_several()) processes.store()->abort(error);
    if (error.code() != Code::not_found && error.code() != Code::failed_precondition) throw;
    fail_with_hint("set target to compile for hardware that is not there", Code::unavailable,
                   "plugin {} finds no device: {}", plugin.path(), error.text());
  }
}

EmitOptions read_emit_options(const Options& options, const graph::Mesh& mesh) {
  EmitOptions emit;
  emit.mesh = mesh;
  emit.compute = dtype_from_name(options.str("pjrt.compute"));
  emit.precision = options.str("pjrt.precision");
  return emit;
}

// Replica r runs on the device of rank r.
CompileOptions read_compile_options(const Options& options, const std::string& platform,
                                    const std::vector<int64_t>& ids) {
  CompileOptions compile;
  compile.replicas = std::ssize(ids);
  compile.devices = ids;
  compile.flags = needed_flags(platform);
  for (const std::string& flag : options.list("pjrt.flags"))
    compile.flags.push_back(parse_flag(flag));
  return compile;
}

// Returns the index of the first rank's device. Fails with out_of_range for a wrong index, and when
// there are too few devices.
size_t checked_device(const Client& client, int64_t index, const Processes& processes) {
  const graph::Mesh& mesh = processes.here();
  const size_t count = client.devices().size();
  if (index < 0 || static_cast<size_t>(index) >= count) {
    fail(Code::out_of_range, "pjrt.device {} does not exist, plugin {} has {} here", index,
         client.plugin().path(), count);
  }
  const bool cpu = client.platform_name() == "cpu";
  const std::string which =
      processes.are_several()
          ? fmt::format(" in process {} of {}", processes.index(), processes.count())
          : "";
  graph::expect_devices(
      mesh, static_cast<int64_t>(count) - index,
      fmt::format("plugin {}{}{}", client.plugin().path(), which,
                  index > 0 ? fmt::format(" from pjrt.device {} on", index) : ""),
      cpu ? fmt::format("set pjrt.client = cpu_device_count={}", index + mesh.ranks()) : "");
  return static_cast<size_t>(index);
}

std::vector<int64_t> ids_of(const std::string& word) {
  std::vector<int64_t> ids(word.size() / sizeof(int64_t));
  std::memcpy(ids.data(), word.data(), ids.size() * sizeof(int64_t));
  return ids;
}

// Returns the device ids of the ranks of all processes, by rank. Fails with unimplemented if the
// plugin does not join processes but makes a separate client in each.
std::vector<int64_t> exchange_ids(const Client& client, const std::vector<int64_t>& own,
                                  const Processes& processes) {
  const std::string word(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(int64_t));
  std::vector<int64_t> all;
  for (const std::string& ids : processes.exchange(word)) {
    const std::vector<int64_t> more = ids_of(ids);
    all.insert(all.end(), more.begin(), more.end());
  }
  const auto is_strange = [&](int64_t id) {
    return std::ranges::find(client.all_ids(), id) == client.all_ids().end() ||
           std::ranges::count(all, id) > 1;
  };
  if (std::ranges::any_of(all, is_strange)) {
    fail_with_hint(
        "start one process: it runs a mesh over all devices of this plugin here; plugins "
        "of TPUs and NVIDIA GPUs join processes",
        Code::unimplemented,
        "plugin {} ({}) does not join the devices of {} processes: each process has only its own "
        "{}",
        client.plugin().path(), client.platform_name(), processes.count(), client.all_ids().size());
  }
  return all;
}

} // namespace

void Counters::add_bytes(int64_t bytes) {
  const int64_t now = live_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t peak = peak_bytes.load(std::memory_order_relaxed);
  while (peak < now && !peak_bytes.compare_exchange_weak(peak, now)) {
  }
}

EngineState::EngineState(const Options& options, std::optional<comm::ProcessLink> link)
    : processes_(std::move(link), options), emit_(read_emit_options(options, processes_.mesh())),
      devices_(open_devices(options, processes_)),
      compile_(read_compile_options(options, client().platform_name(), devices_.ids)),
      runs_(static_cast<size_t>(options.i64("pjrt.in_flight"))),
      cache_(options.str("pjrt.cache"), options.i64("pjrt.cache_limit")) {
  if (cache_.enabled()) library_ = library_identity(client().plugin().path());
}

// Processes exchange errors before they create clients, because a plugin may wait for all
// processes, and again afterwards.
EngineState::Devices EngineState::open_devices(const Options& options, const Processes& processes) {
  NamedValues values;
  const Plugin* plugin = nullptr;
  processes.together([&] {
    values = parse_client_options(options.list("pjrt.client"));
    plugin = &Plugin::load(find_plugin(options.str("plugin")));
  });
  Devices made;
  processes.together([&] {
    made.client = make_client(*plugin, values, processes);
    made.first = checked_device(*made.client, options.i64("pjrt.device"), processes);
  });
  std::vector<int64_t> own;
  for (int64_t here = 0; here < processes.here().ranks(); ++here)
    own.push_back(made.client->devices()[made.first + static_cast<size_t>(here)].id());
  made.ids = exchange_ids(*made.client, own, processes);
  return made;
}

std::string EngineState::key(std::string_view program, const CompileOptions& options) const {
  const Plugin& plugin = client().plugin();
  CompileIdentity identity;
  identity.program = program;
  identity.options = serialize(options);
  identity.plugin = fmt::format("0.{}", plugin.minor());
  for (const auto& [name, value] : plugin.attributes())
    identity.plugin += fmt::format(" {}={}", name, value_text(value));
  identity.platform = client().platform_name() + " " + client().platform_version();
  identity.library = library_;
  for (size_t here = 0; here < std::min(ranks_here(), options.devices.size()); ++here) {
    identity.devices.push_back(device(here).facts().kind);
    for (const auto& [name, value] : device(here).facts().attributes)
      identity.devices.push_back(name + "=" + value_text(value));
  }
  if (processes_.are_several()) // each process has the code of its own devices
    identity.devices.push_back(fmt::format("{} of {}", processes_.index(), processes_.count()));
  identity.environment = plugin.environment();
  identity.host = on_cpu() ? host_identity() : "";
  return cache_key(identity);
}

// Returns null for a program that is not in the cache or cannot be loaded (on another CPU, or by
// another plugin). The caller compiles it.
std::shared_ptr<const Executable> EngineState::load_cached(const std::string& key) {
  const std::optional<std::string> bytes = cache_.load(key);
  if (!bytes) return nullptr;
  try {
    return client().load(*bytes);
  } catch (const Error& error) {
    log(LogLevel::warn, "pjrt: program {} of the cache cannot be used: {}", key, error.text());
    return nullptr;
  }
}

Built EngineState::build_single(std::string_view program) {
  CompileOptions options = compile_;
  options.replicas = 1;
  options.devices = {device().id()};
  return build_with(program, options);
}

Built EngineState::build_with(std::string_view program, const CompileOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string name = cache_.enabled() ? key(program, options) : "";
  Built built;
  if (cache_.enabled()) built.executable = load_cached(name);
  // Compilers of several processes work together, so either all processes compile or none.
  built.from_cache = options.replicas > 1 ? processes_.all(built.executable != nullptr)
                                          : built.executable != nullptr;
  if (!built.from_cache) {
    built.executable =
        compile_text(client(), program, options, needed_flags(client().platform_name()));
  }
  built.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  (built.from_cache ? counters_.cache_hits : counters_.compiles).fetch_add(1);
  if (cache_.enabled() && !built.from_cache) {
    try {
      cache_.store(name, built.executable->compiled().serialize());
    } catch (const Error& error) { // the plugin cannot serialise programs
      log(LogLevel::info, "pjrt: the program cannot be kept: {}", error.text());
    }
  }
  return built;
}

} // namespace dllm::pjrt
