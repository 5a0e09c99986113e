#pragma once
// A loaded PJRT plugin: its table of functions, what it says of itself, which functions it has. A
// plugin is loaded once per path and process and never unloaded (its threads outlive everything),
// so references stay valid.

#include "pjrt/call.h"
#include "pjrt/named_values.h"

#include <string>

namespace dllm::pjrt {

inline constexpr int32_t kOldestMinor = 54;

// Safe from any thread.
class Plugin {
public:
  // compile_only: no device will be used (environment.h). Fails with not_found when there is no
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
  // "1.20.0", or "" when the plugin does not tell: "stablehlo_current_version",
  // "stablehlo_minimum_version"
  std::string version(std::string_view attribute) const;

private:
  std::string path_;
  const abi::Api* api_;
  std::string environment_;
  NamedValues attributes_;
};

} // namespace dllm::pjrt
