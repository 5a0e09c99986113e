#include "pjrt/plugin.h"

#include "base/files.h"
#include "base/log.h"
#include "pjrt/environment.h"
#include "pjrt/identity.h" // compiler_environment
#include "pjrt/plugin_file.h"

#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>

namespace dllm::pjrt {
namespace {

constexpr int32_t kBrokenMinor = 56; // a function stood in the middle of the table for two days

std::string last_load_error() {
  const char* text = ::dlerror();
  return text == nullptr ? "no reason given" : text;
}

std::string real_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> full(::realpath(path.c_str(), nullptr),
                                                         &std::free);
  return full == nullptr ? path : full.get();
}

const abi::Api* open_table(const std::string& path) {
  if (!file_exists(path)) fail(Code::not_found, "plugin {} does not exist", path);
  check_plugin_file(path, abi::kEntrySymbol);
  // By its real name: plugins look for their libraries beside the file, not beside a link to it.
  void* library = ::dlopen(real_path(path).c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    fail_with_hint("try ldd on the file: a library it needs may be missing", Code::unavailable,
                   "plugin {} cannot be loaded: {}", path, last_load_error());
  }
  const auto entry = reinterpret_cast<abi::GetPjrtApi>(::dlsym(library, abi::kEntrySymbol));
  if (entry == nullptr) {
    fail_with_hint("wheels named *-pjrt hold plugins, jaxlib does not", Code::unavailable,
                   "{} is no PJRT plugin: it has no {}", path, abi::kEntrySymbol);
  }
  return entry();
}

void check_table(const std::string& path, const abi::Api* api) {
  if (api == nullptr) fail(Code::unavailable, "plugin {} has no table of functions", path);
  const abi::ApiVersion& version = api->version;
  if (version.major != 0 || version.minor == kBrokenMinor) {
    fail_with_hint("use another release of the plugin", Code::failed_precondition,
                   "plugin {} has API {}.{}, which this library cannot drive", path, version.major,
                   version.minor);
  }
  if (version.minor < kOldestMinor) {
    fail_with_hint("install a newer plugin", Code::failed_precondition,
                   "plugin {} is too old: its API is 0.{}, 0.{} is needed", path, version.minor,
                   kOldestMinor);
  }
}

} // namespace

Plugin::Plugin(std::string path, const abi::Api* api)
    : path_(std::move(path)), api_(api), environment_(compiler_environment()) {
  check_table(path_, api);
  abi::PluginInitializeArgs start{};
  call(*api_, &abi::Api::plugin_initialize, start);
  if (!has(&abi::Api::plugin_attributes)) return;
  abi::PluginAttributesArgs told{};
  call(*api_, &abi::Api::plugin_attributes, told);
  attributes_ = read_named_values(told.attributes, told.num_attributes);
}

const Plugin& Plugin::load(const std::string& path, bool compile_only) {
  static std::mutex mutex;
  // Never destroyed: buffers of a host that exits without releasing them still point here.
  static auto& loaded = *new std::map<std::string, std::unique_ptr<Plugin>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Plugin>& plugin = loaded[real_path(path)];
  if (plugin == nullptr) {
    prepare_environment(compile_only);
    plugin = std::make_unique<Plugin>(path, open_table(path));
    log(LogLevel::info, "pjrt: loaded {}, API 0.{}, StableHLO {}", path, plugin->minor(),
        plugin->version("stablehlo_current_version"));
  }
  return *plugin;
}

const abi::ExtensionBase* Plugin::extension(int32_t type) const {
  const abi::ExtensionBase* at = api_->extension_start;
  while (at != nullptr && at->type != type) at = at->next;
  return at;
}

std::string Plugin::version(std::string_view attribute) const {
  if (const auto* number = find_value<int64_t>(attributes_, attribute))
    return std::to_string(*number);
  std::string text;
  if (const auto* parts = find_value<std::vector<int64_t>>(attributes_, attribute)) {
    for (int64_t part : *parts) text += (text.empty() ? "" : ".") + std::to_string(part);
  }
  return text;
}

} // namespace dllm::pjrt
