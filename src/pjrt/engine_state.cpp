#include "pjrt/engine_state.h"

#include "base/error.h"
#include "base/log.h"
#include "pjrt/client_options.h"
#include "pjrt/compile_text.h"
#include "pjrt/emit/flags.h"
#include "pjrt/find_plugin.h"
#include "pjrt/identity.h"

#include <chrono>

namespace dllm::pjrt {
namespace {

// Plugins say in ways of their own that their hardware is missing.
std::shared_ptr<const Client> make_client(const Options& options) {
  const NamedValues values = parse_client_options(options.list("pjrt.client"));
  const Plugin& plugin = Plugin::load(find_plugin(options.str("plugin")));
  try {
    return Client::create(plugin, values);
  } catch (const Error& error) {
    if (error.code() != Code::not_found && error.code() != Code::failed_precondition) throw;
    fail_with_hint("set target to compile for hardware that is not there", Code::unavailable,
                   "plugin {} finds no device: {}", plugin.path(), error.text());
  }
}

EmitOptions read_emit_options(const Options& options) {
  EmitOptions emit;
  emit.compute = dtype_from_name(options.str("pjrt.compute"));
  emit.precision = options.str("pjrt.precision");
  return emit;
}

CompileOptions read_compile_options(const Options& options, const Client& client,
                                    const Device& device) {
  CompileOptions compile;
  compile.devices = {device.id()};
  compile.flags = needed_flags(client.platform_name());
  for (const std::string& flag : options.list("pjrt.flags"))
    compile.flags.push_back(parse_flag(flag));
  return compile;
}

size_t checked_device(const Client& client, int64_t index) {
  const size_t count = client.devices().size();
  if (index < 0 || static_cast<size_t>(index) >= count) {
    fail(Code::out_of_range, "pjrt.device {} does not exist, plugin {} has {} here", index,
         client.plugin().path(), count);
  }
  return static_cast<size_t>(index);
}

} // namespace

void Counters::add_bytes(int64_t bytes) {
  const int64_t now = live_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t peak = peak_bytes.load(std::memory_order_relaxed);
  while (peak < now && !peak_bytes.compare_exchange_weak(peak, now)) {
  }
}

EngineState::EngineState(const Options& options)
    : client_(make_client(options)), device_(checked_device(*client_, options.i64("pjrt.device"))),
      emit_(read_emit_options(options)),
      compile_(read_compile_options(options, *client_, device())),
      runs_(static_cast<size_t>(options.i64("pjrt.in_flight"))),
      cache_(options.str("pjrt.cache"), options.i64("pjrt.cache_limit")) {
  if (cache_.enabled()) library_ = library_identity(client_->plugin().path());
}

std::string EngineState::key(std::string_view program, const CompileOptions& options) const {
  const Plugin& plugin = client_->plugin();
  CompileIdentity identity;
  identity.program = program;
  identity.options = serialize(options);
  identity.plugin = fmt::format("0.{}", plugin.minor());
  for (const auto& [name, value] : plugin.attributes())
    identity.plugin += fmt::format(" {}={}", name, value_text(value));
  identity.platform = client_->platform_name() + " " + client_->platform_version();
  identity.library = library_;
  identity.devices = {device().facts().kind};
  for (const auto& [name, value] : device().facts().attributes)
    identity.devices.push_back(name + "=" + value_text(value));
  identity.environment = plugin.environment();
  identity.host = on_cpu() ? host_identity() : "";
  return cache_key(identity);
}

// A program that does not load any more (another CPU, a plugin that changed its mind) is compiled
// again.
std::shared_ptr<const Executable> EngineState::load_cached(const std::string& key) {
  const std::optional<std::string> bytes = cache_.load(key);
  if (!bytes) return nullptr;
  try {
    return client_->load(*bytes);
  } catch (const Error& error) {
    log(LogLevel::warn, "pjrt: program {} of the cache is of no use: {}", key, error.text());
    return nullptr;
  }
}

Built EngineState::build(std::string_view program) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string name = cache_.enabled() ? key(program, compile_) : "";
  Built built;
  if (cache_.enabled()) built.executable = load_cached(name);
  built.from_cache = built.executable != nullptr;
  if (!built.from_cache) {
    built.executable =
        compile_text(*client_, program, compile_, needed_flags(client_->platform_name()));
  }
  built.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  (built.from_cache ? counters_.cache_hits : counters_.compiles).fetch_add(1);
  if (cache_.enabled() && !built.from_cache) {
    try {
      cache_.store(name, built.executable->compiled().serialize());
    } catch (const Error& error) { // plugins without serialisation
      log(LogLevel::info, "pjrt: the program cannot be kept: {}", error.text());
    }
  }
  return built;
}

} // namespace dllm::pjrt
