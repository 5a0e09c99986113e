#pragma once
// Plugins: where they are, checks before one is loaded, the loaded one, the calls into it and values in its form.

#include "base/error.h"
#include "pjrt/abi/base.h"
#include "pjrt/abi/table.h"
#include "tensor/dtype.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace dllm::pjrt {

// The one place that calls into a plugin's table. A plugin's error becomes a dllm::Error of the same code (the numbers are
// the same) with the plugin's text in it. Also events: what a plugin will have done later.

// True when the plugin's table is long enough to hold the slot and the slot is filled. The minor
// version is no proof: numbers were used twice.
template <class Slot> bool has_slot(const abi::Api& api, Slot abi::Api::*slot) {
  const auto* begin = reinterpret_cast<const std::byte*>(&api);
  const auto* entry = reinterpret_cast<const std::byte*>(&(api.*slot));
  return static_cast<size_t>(entry - begin) + sizeof(Slot) <= api.struct_size &&
         api.*slot != nullptr;
}

// Copies code and text of a plugin's error and destroys it. REQUIRES: error is not null.
Error take_error(const abi::Api& api, abi::Error* error, const char* function);
[[noreturn]] void fail_missing(const abi::Api& api, const char* function);

// A zeroed struct with its size written in.
template <class Args> Args sized() {
  Args args{};
  if constexpr (requires { args.head; }) {
    args.head.struct_size = abi::kSize<Args>;
  } else {
    args.struct_size = abi::kSize<Args>;
  }
  return args;
}

// call(api, &abi::Api::client_destroy, args): fails with the plugin's error, or with unimplemented
// when the plugin lacks the function.
template <class Args> void call(const abi::Api& api, abi::Call<Args> abi::Api::*slot, Args& args) {
  args.head.struct_size = abi::kSize<Args>;
  if (!has_slot(api, slot)) fail_missing(api, abi::kFunction<Args>);
  if (abi::Error* error = (api.*slot)(&args)) throw take_error(api, error, abi::kFunction<Args>);
}

// For destructors: what goes wrong is logged and forgotten.
template <class Args>
void call_quietly(const abi::Api& api, abi::Call<Args> abi::Api::*slot, Args& args) noexcept {
  try {
    call(api, slot, args);
  } catch (const Error&) { // take_error logged it
  }
}

// An object of a plugin that is destroyed with its last owner.
// Handle<abi::Event, abi::EventDestroyArgs, &abi::EventDestroyArgs::event,
// &abi::Api::event_destroy>
template <class T, class DestroyArgs, T* DestroyArgs::*member,
          abi::Call<DestroyArgs> abi::Api::*destroy>
class Handle {
public:
  Handle() = default;
  Handle(const abi::Api& api, T* object) : api_(&api), object_(object) {}
  Handle(Handle&& other) noexcept
      : api_(other.api_), object_(std::exchange(other.object_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(object_, other.object_);
    return *this;
  }
  ~Handle() { reset(); }

  explicit operator bool() const { return object_ != nullptr; }
  T* get() const { return object_; }
  const abi::Api& api() const { return *api_; }
  T* release() { return std::exchange(object_, nullptr); }
  void reset() {
    if (object_ == nullptr) return;
    DestroyArgs args{};
    args.*member = std::exchange(object_, nullptr);
    call_quietly(*api_, destroy, args);
  }

private:
  const abi::Api* api_ = nullptr; // plugins are never unloaded
  T* object_ = nullptr;
};

using EventHandle = Handle<abi::Event, abi::EventDestroyArgs, &abi::EventDestroyArgs::event,
                           &abi::Api::event_destroy>;

// Blocks until it happened; fails with the error it ended with. An empty event has happened.
void await(const EventHandle& event);
bool is_ready(const EventHandle& event);
// Calls `done` once, on any thread or before this returns; it must be short and must not call the
// plugin. The event may be destroyed at once. Errors of the event are dropped.
void when_ready(const EventHandle& event, std::function<void()> done);

// Values in the form of plugins: named ones (attributes, properties, options) and element types of arrays.

// Named values that plugins give (attributes, properties) and take (options).

using NamedValue = std::variant<std::string, int64_t, std::vector<int64_t>, float, bool>;
using NamedValues = std::map<std::string, NamedValue, std::less<>>;

// Copies of a plugin's values. Unknown types are left out.
NamedValues read_named_values(const abi::NamedValue* values, size_t count);

// Views of the values in the form of a plugin. REQUIRES: `values` outlives the result and does not
// change.
std::vector<abi::NamedValue> named_value_views(const NamedValues& values);

// Null when there is no such value or it has another type.
template <class T> const T* find_value(const NamedValues& values, std::string_view name) {
  const auto found = values.find(name);
  return found == values.end() ? nullptr : std::get_if<T>(&found->second);
}

// "4" "true" "[0, 1, 0]" as in a log
std::string value_text(const NamedValue& value);

// Options of a plugin's client from name=value texts. A known option of a wrong type aborts older
// plugins and an unknown one is ignored by them, so names and types are checked here.

// "cpu_device_count=8", "visible_devices=0:1" (a list), or with a type for names this library does
// not know: "name:i64=8", of string, i64, list, f32, bool. Fails with not_found for an unknown name
// without a type, with invalid_argument for a value that is not of its type.
NamedValues parse_client_options(const std::vector<std::string>& texts);

// Element types of arrays as plugins number them.

abi::BufferType buffer_type(DType dtype);
DType dtype_of(
    abi::BufferType type); // fails with unimplemented for types that arrays here cannot have

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
