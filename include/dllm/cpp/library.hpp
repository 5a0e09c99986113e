#ifndef DLLM_CPP_LIBRARY_HPP
#define DLLM_CPP_LIBRARY_HPP
// Functions for version, log, names and plugins, and the class that runs Lua scripts.
#include "dllm/cpp/decode.hpp"
#include "dllm/cpp/train.hpp"

namespace dllm {
inline namespace api {

inline int32_t abi_version() noexcept {
  return dllm_abi_version();
}
inline std::string_view version() noexcept {
  return dllm_version();
}
// Returns how the library was built, as JSON.
inline std::string_view build_info() noexcept {
  return dllm_build_info();
}
inline bool has_feature(std::string_view name) {
  return dllm_has_feature(zero_ended(name).c_str()) != 0;
}
inline std::string_view status_name(dllm_status status) noexcept {
  return dllm_status_name(status);
}

// Sets the lowest level that is logged (DLLM_LOG_...) and the sink of lines (DLLM_SINK_...).
inline void log_config(int32_t min_level, int32_t sink) noexcept {
  dllm_log_config(min_level, sink);
}
// Sends lines to fn in place of the sink, from any thread, one at a time. With NULL lines are
// dropped. fn must not throw.
inline void log_hook(int32_t min_level, dllm_log_fn fn, void* user_data = nullptr) noexcept {
  dllm_log_hook(min_level, fn, user_data);
}
struct LogLine {
  int32_t level = 0;
  std::string text;
};
// Removes and returns the oldest line of the queue. Returns nothing when the queue is empty.
inline std::optional<LogLine> log_next() {
  LogLine line;
  bool found = false;
  line.text = text([&](dllm_buffer* out, dllm_error*) {
    found = dllm_log_next(out, &line.level) != 0;
    return dllm_status{DLLM_OK};
  });
  return found ? std::optional<LogLine>(std::move(line)) : std::nullopt;
}

// Returns the registered names of a kind: engine, family, objective, optimizer, options, policy,
// schedule or sink.
inline std::vector<std::string> registry(std::string_view kind) {
  const std::string table = zero_ended(kind);
  std::vector<std::string> names;
  while (const char* name = dllm_registry_name(table.c_str(), size_of(names.size())))
    names.emplace_back(name);
  return names;
}

// Both return JSON: the PJRT plugins that are found, and the description of one plugin.
inline std::string plugins() {
  return text([](dllm_buffer* out, dllm_error* err) { return dllm_plugin_list(out, err); });
}
inline std::string describe_plugin(std::string_view plugin) {
  return text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_plugin_describe(zero_ended(plugin).c_str(), out, err);
  });
}

// Each returns the noun of a handle type, for Lua::set_object.
inline const char* noun_of(const dllm_buffer*) noexcept {
  return "buffer";
}
inline const char* noun_of(const dllm_options*) noexcept {
  return "options";
}
inline const char* noun_of(const dllm_task*) noexcept {
  return "task";
}
inline const char* noun_of(const dllm_engine*) noexcept {
  return "engine";
}
inline const char* noun_of(const dllm_tensor*) noexcept {
  return "tensor";
}
inline const char* noun_of(const dllm_source*) noexcept {
  return "source";
}
inline const char* noun_of(const dllm_model*) noexcept {
  return "model";
}
inline const char* noun_of(const dllm_tokenizer*) noexcept {
  return "tokenizer";
}
inline const char* noun_of(const dllm_dataset*) noexcept {
  return "dataset";
}
inline const char* noun_of(const dllm_loader*) noexcept {
  return "loader";
}
inline const char* noun_of(const dllm_batch*) noexcept {
  return "batch";
}
inline const char* noun_of(const dllm_schedule*) noexcept {
  return "schedule";
}
inline const char* noun_of(const dllm_objective*) noexcept {
  return "objective";
}
inline const char* noun_of(const dllm_trainer*) noexcept {
  return "trainer";
}
inline const char* noun_of(const dllm_decoder*) noexcept {
  return "decoder";
}
inline const char* noun_of(const dllm_checkpoint*) noexcept {
  return "checkpoint";
}

// Runs scripts in its own Lua state. The values of a script are returned as a JSON array.
class Lua : public Handle<dllm_lua> {
public:
  using Handle::Handle;
  explicit Lua(const Settings& settings = {})
      : Handle(settings.with("lua", [](const dllm_options* opts) {
          return make<dllm_lua>(
              [&](dllm_lua** out, dllm_error* err) { return dllm_lua_new(opts, out, err); });
        })) {}
  void set_json(std::string_view name, std::string_view json) {
    call([&](dllm_error* err) {
      return dllm_lua_set_json(get(), zero_ended(name).c_str(), json.data(), size_of(json.size()),
                               err);
    });
  }
  // Sets a global to an object. Lua keeps its own reference.
  template <class T> void set_object(std::string_view name, const Handle<T>& object) {
    call([&](dllm_error* err) {
      return dllm_lua_set_object(get(), zero_ended(name).c_str(), noun_of(object.get()),
                                 object.get(), err);
    });
  }
  std::string run_file(std::string_view path, std::string_view args_json = {},
                       const Task* task = nullptr) {
    return text([&](dllm_buffer* out, dllm_error* err) {
      return dllm_lua_run_file(get(), zero_ended(path).c_str(), args_json.data(),
                               size_of(args_json.size()), handle_of(task), out, err);
    });
  }
  std::string run_text(std::string_view name, std::string_view code, const Task* task = nullptr) {
    return text([&](dllm_buffer* out, dllm_error* err) {
      return dllm_lua_run_text(get(), zero_ended(name).c_str(), code.data(), size_of(code.size()),
                               handle_of(task), out, err);
    });
  }
  std::string call_function(std::string_view function, std::string_view args_json = {},
                            const Task* task = nullptr) {
    return text([&](dllm_buffer* out, dllm_error* err) {
      return dllm_lua_call(get(), zero_ended(function).c_str(), args_json.data(),
                           size_of(args_json.size()), handle_of(task), out, err);
    });
  }
};

} // namespace api
} // namespace dllm
#endif
