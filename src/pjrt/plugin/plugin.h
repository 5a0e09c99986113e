#pragma once
// A Plugin is a loaded PJRT plugin. This header also has the calls into its table, its errors,
// events and values, and the search for plugins.

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

// All calls into a plugin's table go through the functions below. They turn a plugin's error into a
// dllm::Error with the same code (PJRT has the same numbers) and the plugin's text.

// Returns true if the plugin's table is long enough to hold the slot and the slot is filled. The
// minor version does not prove it, because numbers were used twice.
template <class Slot> bool has_slot(const abi::Api& api, Slot abi::Api::*slot) {
  const auto* begin = reinterpret_cast<const std::byte*>(&api);
  const auto* entry = reinterpret_cast<const std::byte*>(&(api.*slot));
  return static_cast<size_t>(entry - begin) + sizeof(Slot) <= api.struct_size &&
         api.*slot != nullptr;
}

// Copies the code and text of a plugin's error and destroys it. REQUIRES: error is not null.
Error take_error(const abi::Api& api, abi::Error* error, const char* function);
[[noreturn]] void fail_missing(const abi::Api& api, const char* function);

// Returns a zeroed struct with its size set.
template <class Args> Args sized() {
  Args args{};
  if constexpr (requires { args.head; }) {
    args.head.struct_size = abi::kSize<Args>;
  } else {
    args.struct_size = abi::kSize<Args>;
  }
  return args;
}

// Calls a function of the table, as in call(api, &abi::Api::client_destroy, args). Fails with the
// plugin's error, or with unimplemented if the plugin does not have the function.
template <class Args> void call(const abi::Api& api, abi::Call<Args> abi::Api::*slot, Args& args) {
  args.head.struct_size = abi::kSize<Args>;
  if (!has_slot(api, slot)) fail_missing(api, abi::kFunction<Args>);
  if (abi::Error* error = (api.*slot)(&args)) throw take_error(api, error, abi::kFunction<Args>);
}

// Calls a function and ignores its error, which is logged. Destructors need this.
template <class Args>
void call_quietly(const abi::Api& api, abi::Call<Args> abi::Api::*slot, Args& args) noexcept {
  try {
    call(api, slot, args);
  } catch (const Error&) { // take_error logged it
  }
}

// Owns an object of a plugin and destroys it. The template arguments name the function that
// destroys it, as in EventHandle below.
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

// An event of a plugin happens when work has ended. An empty handle is an event that has happened.

// Blocks until the event has happened. Fails with the error that the work ended with.
void await(const EventHandle& event);
bool is_ready(const EventHandle& event);
// Calls `done` once when the event has happened, on any thread or before this returns. Ignores the
// error of the event. The handle may be destroyed meanwhile. REQUIRES: `done` is short and does not
// call the plugin.
void when_ready(const EventHandle& event, std::function<void()> done);

// Named values: attributes and properties that a plugin has, options that it takes.
using NamedValue = std::variant<std::string, int64_t, std::vector<int64_t>, float, bool>;
using NamedValues = std::map<std::string, NamedValue, std::less<>>;

// Copies a plugin's values. Leaves out values of an unknown type.
NamedValues read_named_values(const abi::NamedValue* values, size_t count);

// Returns views of the values as structs of the plugin. REQUIRES: `values` outlives the result and
// does not change.
std::vector<abi::NamedValue> named_value_views(const NamedValues& values);

// Returns null if there is no such value or it has another type.
template <class T> const T* find_value(const NamedValues& values, std::string_view name) {
  const auto found = values.find(name);
  return found == values.end() ? nullptr : std::get_if<T>(&found->second);
}

// Returns a value as in a log: "4", "true", "[0, 1, 0]".
std::string value_text(const NamedValue& value);

// Parses options of a plugin's client: "cpu_device_count=8", "visible_devices=0:1" (a list), or
// with a type for a name that this library does not have: "name:i64=8". Types are string, i64,
// list, f32, bool. Fails with not_found for an unknown name without a type, with invalid_argument
// for a value of another type. Older plugins ignore an unknown option and abort on a wrong type, so
// both are checked here.
NamedValues parse_client_options(const std::vector<std::string>& texts);

// Convert element types to and from the numbers of plugins. dtype_of() fails with unimplemented for
// a type that a Tensor cannot have.
abi::BufferType buffer_type(DType dtype);
DType dtype_of(abi::BufferType type);

// Returns the path of a plugin. `name` is a path (with a slash or the ending .so), or cpu, tpu or
// cuda. Searches the folders of DLLM_PLUGINS (separated by colons), TPU_LIBRARY_PATH, and the
// Python packages of VIRTUAL_ENV, CONDA_PREFIX, the user, PATH, pyenv and the system. Fails with
// not_found, naming the files, the folders and the package to install, and with invalid_argument
// for another name.
std::string find_plugin(const std::string& name);

// The plugins of one platform that were found.
struct PluginSearch {
  std::string platform;           // "cpu", "tpu", "cuda"
  std::vector<std::string> paths; // find_plugin returns the first one
  std::string packages;           // packages with a plugin: "lammps-jax-pjrt-cpu or xla-cpu-pjrt"
  std::string looked_in;          // folders that were searched
};
// Searches plugins of every platform and loads none.
std::vector<PluginSearch> find_plugins();

// Checks a file before it is loaded, because loading runs code of the file. Fails with unavailable,
// naming what is missing, unless `path` is a regular ELF shared library for this machine whose
// dynamic symbols define `symbol`.
void check_plugin_file(const std::string& path, const char* symbol);

// Sets environment variables that plugins read while they are loaded. They reduce logging, prevent
// requests to an absent metadata server and, for compile_only, a lock on chips. Keeps variables
// that are set already. REQUIRES: the plugin is not loaded yet, and no other thread reads the
// environment.
void prepare_environment(bool compile_only);

// Returns true if this machine has a TPU on its PCI bus. Tests pass another `root`.
bool has_tpu(const std::string& root = "/sys/bus/pci/devices");

inline constexpr int32_t kOldestMinor = 54;

// A loaded PJRT plugin: its table of functions and its attributes. A plugin is loaded once per path
// and process. It is never unloaded, because its threads go on, so references stay valid. Any
// thread.
class Plugin {
public:
  // Loads the plugin at `path`. compile_only: no device will be used. Fails with not_found if the
  // file does not exist, with unavailable if it is not a plugin or cannot be loaded. Fails with
  // failed_precondition if the plugin is too old.
  static const Plugin& load(const std::string& path, bool compile_only = false);
  // Checks a table that is loaded already in the same way.
  Plugin(std::string path, const abi::Api* api);
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  const std::string& path() const { return path_; }
  const abi::Api& api() const { return *api_; }
  int32_t minor() const { return api_->version.minor; }
  template <class Slot> bool has(Slot abi::Api::*slot) const { return has_slot(*api_, slot); }
  // Returns null if the plugin does not offer the extension.
  const abi::ExtensionBase* extension(int32_t type) const;

  const NamedValues& attributes() const { return attributes_; }
  // Returns compiler_environment() of the time when the plugin was loaded, which is when it reads
  // the environment.
  const std::string& environment() const { return environment_; }
  // Returns a version such as "1.20.0" from an attribute ("stablehlo_current_version",
  // "stablehlo_minimum_version"), or "" if the plugin does not have the attribute.
  std::string version(std::string_view attribute) const;

private:
  std::string path_;
  const abi::Api* api_;
  std::string environment_;
  NamedValues attributes_;
};

} // namespace dllm::pjrt
