// Shared by an engine, its programs and its arrays: counts, runs in progress, programs.

#include "pjrt/engine_state.h"

#include "base/error.h"
#include "base/log.h"
#include "graph/mesh_options.h"
#include "pjrt/cache/executable_cache.h"
#include "pjrt/plugin/client.h"
#include "pjrt/plugin/plugin.h"

#include <algorithm>
#include <chrono>
#include <string>

namespace dllm::pjrt {

namespace {

// Plugins report missing hardware in different words.
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
  emit.mesh = graph::mesh_of(options);
  emit.compute = dtype_from_name(options.str("pjrt.compute"));
  emit.precision = options.str("pjrt.precision");
  return emit;
}

// Replica r runs on the device of rank r.
CompileOptions read_compile_options(const Options& options, const Client& client,
                                    size_t first_device, size_t ranks) {
  CompileOptions compile;
  compile.replicas = static_cast<int64_t>(ranks);
  for (size_t rank = 0; rank < ranks; ++rank)
    compile.devices.push_back(client.devices()[first_device + rank].id());
  compile.flags = needed_flags(client.platform_name());
  for (const std::string& flag : options.list("pjrt.flags"))
    compile.flags.push_back(parse_flag(flag));
  return compile;
}

// The first device of the mesh.
size_t checked_device(const Client& client, int64_t index, const graph::Mesh& mesh) {
  const size_t count = client.devices().size();
  if (index < 0 || static_cast<size_t>(index) >= count) {
    fail(Code::out_of_range, "pjrt.device {} does not exist, plugin {} has {} here", index,
         client.plugin().path(), count);
  }
  const bool cpu = client.platform_name() == "cpu";
  graph::expect_devices(
      mesh, static_cast<int64_t>(count) - index,
      fmt::format("plugin {}{}", client.plugin().path(),
                  index > 0 ? fmt::format(" from pjrt.device {} on", index) : ""),
      cpu ? fmt::format("set pjrt.client = cpu_device_count={}", index + mesh.ranks()) : "");
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
    : emit_(read_emit_options(options)), client_(make_client(options)),
      first_device_(checked_device(*client_, options.i64("pjrt.device"), emit_.mesh)),
      compile_(read_compile_options(options, *client_, first_device_, ranks())),
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
  for (size_t rank = 0; rank < options.devices.size(); ++rank) {
    identity.devices.push_back(device(rank).facts().kind);
    for (const auto& [name, value] : device(rank).facts().attributes)
      identity.devices.push_back(name + "=" + value_text(value));
  }
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

Built EngineState::build_single(std::string_view program) {
  CompileOptions options = compile_;
  options.replicas = 1;
  options.devices.resize(1);
  return build_with(program, options);
}

Built EngineState::build_with(std::string_view program, const CompileOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string name = cache_.enabled() ? key(program, options) : "";
  Built built;
  if (cache_.enabled()) built.executable = load_cached(name);
  built.from_cache = built.executable != nullptr;
  if (!built.from_cache) {
    built.executable =
        compile_text(*client_, program, options, needed_flags(client_->platform_name()));
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

namespace {

constexpr int kRuns = 3;

struct Chain {
  int64_t size; // of the square matrices
  int products; // one after the other
};

const char* precision_word(const std::string& precision) {
  return precision == "highest" ? "HIGHEST" : precision == "high" ? "HIGH" : "DEFAULT";
}

std::string chain_text(const Chain& chain, const EmitOptions& options) {
  const std::string element = dtype_name(options.compute);
  const std::string type = fmt::format("tensor<{0}x{0}x{1}>", chain.size, element);
  const std::string sum = fmt::format("tensor<{0}x{0}xf32>", chain.size);
  const char* word = precision_word(options.precision);
  std::string text = fmt::format("func.func public @main(%x0: {0}, %w: {0}) -> {0} {{\n", type);
  for (int i = 0; i < chain.products; ++i) {
    text += fmt::format(" %s{0} = stablehlo.dot_general %x{0}, %w, contracting_dims = [1] x [0], "
                        "precision = [{1}, {1}] : ({2}, {2}) -> {3}\n"
                        " %x{4} = stablehlo.convert %s{0} : ({3}) -> {2}\n",
                        i, word, type, sum, i + 1);
  }
  return text + fmt::format(" return %x{} : {}\n}}\n", chain.products, type);
}

// Products of this matrix with itself are the matrix again.
Tensor averaging_matrix(int64_t size, DType dtype) {
  Tensor made(DType::f32, {size, size});
  std::ranges::fill(made.mutable_as<float>(), 1.0f / static_cast<float>(size));
  return made.to(dtype);
}

} // namespace

double measure_peak_flops(EngineState& state) {
  const Chain chain = state.on_cpu() ? Chain{1024, 2} : Chain{8192, 8};
  const EmitOptions& options = state.emit_options();
  const auto program = state.build_single(chain_text(chain, options)).executable;
  const Array matrix =
      state.client().upload(averaging_matrix(chain.size, options.compute), state.device());
  const std::vector<const Array*> arguments{&matrix, &matrix};
  double best = 0;
  for (int run = 0; run <= kRuns; ++run) { // the first one warms up
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::vector<Array>> results;
    {
      const std::lock_guard lock(state.starting());
      results = program->run(std::span(&arguments, 1));
    }
    await(results.front().front().ready());
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    if (run > 0) best = std::max(best, 1 / seconds.count());
  }
  const auto n = static_cast<double>(chain.size);
  return 2 * n * n * n * chain.products * best;
}

} // namespace dllm::pjrt
