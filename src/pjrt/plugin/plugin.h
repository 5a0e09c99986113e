#pragma once
// Plugins: where they are, checks before one is loaded, the loaded one.

#include "pjrt/plugin/call.h"
#include "pjrt/plugin/values.h"

#include <string>
#include <vector>

namespace dllm::pjrt {

// Where plugins are: a path, or a platform's name that is looked up.

// The path of a plugin. `name` is a path (holds a slash or ends in .so), or cpu, tpu or cuda,
// looked for in the folders of DLLM_PLUGINS (separated by colons), in TPU_LIBRARY_PATH, and among
// the Python packages of VIRTUAL_ENV, CONDA_PREFIX, the user and the system. Fails with not_found
// naming what was tried and the package to get, with invalid_argument when `name` is none of these.
std::string find_plugin(const std::string& name);

// Every platform that has a name, with all its plugins that are found; nothing is loaded.
struct PluginSearch {
  std::string platform;           // "cpu" "tpu" "cuda"
  std::vector<std::string> paths; // the first is what find_plugin answers
  std::string packages;           // that hold one: "lammps-jax-pjrt-cpu or xla-cpu-pjrt"
  std::string looked_in;          // folders
};
std::vector<PluginSearch> find_plugins();

// Looking at a plugin's file before it is loaded: loading runs the constructors of whatever is in it.

// Fails with unavailable, saying what is missing, unless `path` is a regular ELF shared library for
// this machine whose dynamic symbols define `symbol`. Nothing in the file runs.
void check_plugin_file(const std::string& path, const char* symbol);

// Variables that plugins read while they are loaded.

// Sets what a plugin should find unless the user set it: less logging, no question to a metadata
// server that is not there, and, for compile_only, no lock on chips. Call before the plugin is
// loaded; not while other threads read the environment.
void prepare_environment(bool compile_only);

// True when a TPU sits on this machine's PCI bus; tests give another `root`.
bool has_tpu(const std::string& root = "/sys/bus/pci/devices");

// A loaded PJRT plugin: its table of functions and its attributes. A
// plugin is loaded once per path and process and never unloaded (its threads outlive everything),
// so references stay valid.

inline constexpr int32_t kOldestMinor = 54;

// Safe from any thread.
class Plugin {
public:
  // compile_only: no device will be used. Fails with not_found when there is no
  // file, with unavailable when it cannot be loaded or is no plugin, with failed_precondition when
  // it is too old.
  static const Plugin& load(const std::string& path, bool compile_only = false);
  // The checks of load() on a table that is here already.
  Plugin(std::string path, const abi::Api* api);
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  const std::string& path() const { return path_; }
  const abi::Api& api() const { return *api_; }
  int32_t minor() const { return api_->version.minor; }
  template <class Slot> bool has(Slot abi::Api::*slot) const { return has_slot(*api_, slot); }
  // Null when the plugin does not offer it.
  const abi::ExtensionBase* extension(int32_t type) const;

  const NamedValues& attributes() const { return attributes_; }
  // compiler_environment() when it was loaded: plugins read it once.
  const std::string& environment() const { return environment_; }
  // "1.20.0", or "" when the plugin has no such attribute: "stablehlo_current_version",
  // "stablehlo_minimum_version"
  std::string version(std::string_view attribute) const;

private:
  std::string path_;
  const abi::Api* api_;
  std::string environment_;
  NamedValues attributes_;
};

} // namespace dllm::pjrt
