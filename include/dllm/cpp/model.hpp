#ifndef DLLM_CPP_MODEL_HPP
#define DLLM_CPP_MODEL_HPP
// The classes for engines and models.
#include "dllm/cpp/data.hpp"
#include "dllm/cpp/options.hpp"
#include "dllm/cpp/text.hpp"

#include <functional>

namespace dllm {
inline namespace api {

// The hooks of a host program. For an empty member the engine uses its own memory or threads. Hooks
// run on any thread, several at the same time, and must not throw. An allocation that throws counts
// as failed, and a job that throws ends its call with DLLM_INTERNAL. The host must outlive the
// engine and all objects that use it.
struct Host {
  std::function<void*(int64_t size, int64_t alignment)> allocate;
  std::function<void(void* memory, int64_t size)> deallocate;
  // Calls chunk(index) once for every index of 0 to count - 1 and returns after all calls.
  std::function<void(int64_t count, const std::function<void(int64_t index)>& chunk)> parallel;

  static void* on_allocate(int64_t size, int64_t alignment, void* host) noexcept {
    return guarded([&] { return static_cast<Host*>(host)->allocate(size, alignment); });
  }
  static void on_deallocate(void* memory, int64_t size, void* host) noexcept {
    static_cast<Host*>(host)->deallocate(memory, size);
  }
  static void on_parallel(int64_t count, dllm_chunk_fn chunk, void* job, void* host) noexcept {
    guarded([&]() -> void* {
      static_cast<Host*>(host)->parallel(count, [chunk, job](int64_t index) { chunk(job, index); });
      return nullptr;
    });
  }

private:
  template <class F> static void* guarded(F&& f) noexcept {
#if defined(__cpp_exceptions)
    try {
      return f();
    } catch (...) {
      return nullptr;
    }
#else
    return f();
#endif
  }
};

// The devices and threads that compute.
class Engine : public Handle<dllm_engine> {
public:
  using Handle::Handle;
  explicit Engine(const Settings& settings = {})
      : Handle(settings.with("engine", [](const dllm_options* opts) {
          return make<dllm_engine>(
              [&](dllm_engine** out, dllm_error* err) { return dllm_engine_new(opts, out, err); });
        })) {}

  // Makes an engine of kind cpu with memory and threads of the host.
  explicit Engine(Host& host, const Settings& settings = {})
      : Handle(settings.with("engine", [&](const dllm_options* opts) {
          return make<dllm_engine>([&](dllm_engine** out, dllm_error* err) {
            return dllm_engine_new_hosted(opts, host.allocate ? &Host::on_allocate : nullptr,
                                          host.deallocate ? &Host::on_deallocate : nullptr,
                                          host.parallel ? &Host::on_parallel : nullptr, &host, out,
                                          err);
          });
        })) {}

  std::vector<std::string> devices() const {
    std::vector<std::string> names;
    for (int64_t i = 0; i < dllm_engine_device_count(get()); ++i)
      names.push_back(or_empty(dllm_engine_device_name(get(), i)));
    return names;
  }
  std::string describe() const {
    return text(
        [&](dllm_buffer* out, dllm_error* err) { return dllm_engine_describe(get(), out, err); });
  }
  int64_t i64(std::string_view key) const {
    return number<int64_t>([&](int64_t* out, dllm_error* err) {
      return dllm_engine_i64(get(), zero_ended(key).c_str(), out, err);
    });
  }
  void set_i64(std::string_view key, int64_t value) {
    call([&](dllm_error* err) {
      return dllm_engine_set_i64(get(), zero_ended(key).c_str(), value, err);
    });
  }
  // Returns the estimate of what a job on the model at `path` needs, as JSON.
  std::string plan(std::string_view path, const Settings& settings = {},
                   const Task* task = nullptr) const {
    return settings.with("plan", [&](const dllm_options* opts) {
      return text([&](dllm_buffer* out, dllm_error* err) {
        return dllm_engine_plan(get(), zero_ended(path).c_str(), opts, handle_of(task), out, err);
      });
    });
  }
  // Frees memory that is not in use.
  void trim() {
    call([&](dllm_error* err) { return dllm_engine_trim(get(), err); });
  }
};

// A model has a config and named parameters.
class Model : public Handle<dllm_model> {
public:
  using Handle::Handle;
  // Loads a model from a folder, a .gguf file, a checkpoint or a run.
  static Model load(const Engine& engine, std::string_view path, const Settings& settings = {},
                    const Task* task = nullptr) {
    return from(settings, [&](const dllm_options* opts, dllm_model** out, dllm_error* err) {
      return dllm_model_load(engine.get(), zero_ended(path).c_str(), opts, handle_of(task), out,
                             err);
    });
  }
  static Model load(const Engine& engine, const Source& source, const Settings& settings = {},
                    const Task* task = nullptr) {
    return from(settings, [&](const dllm_options* opts, dllm_model** out, dllm_error* err) {
      return dllm_model_load_source(engine.get(), source.get(), opts, handle_of(task), out, err);
    });
  }
  // Makes a model with random weights from the text of a config.json.
  static Model from_config(const Engine& engine, std::string_view config_json,
                           const Settings& settings = {}, const Task* task = nullptr) {
    return from(settings, [&](const dllm_options* opts, dllm_model** out, dllm_error* err) {
      return dllm_model_new(engine.get(), config_json.data(), size_of(config_json.size()), opts,
                            handle_of(task), out, err);
    });
  }
  // Writes a file or folder with the weights in another format. Returns the report as JSON.
  static std::string quantize(std::string_view path, std::string_view target,
                              const Settings& settings = {}, const Task* task = nullptr) {
    std::string report;
    settings.with("quantize", [&](const dllm_options* opts) {
      report = text([&](dllm_buffer* out, dllm_error* err) {
        return dllm_model_quantize(zero_ended(path).c_str(), zero_ended(target).c_str(), opts,
                                   handle_of(task), out, err);
      });
    });
    return report;
  }
  void save(std::string_view path, const Settings& settings = {},
            const Task* task = nullptr) const {
    settings.with("save", [&](const dllm_options* opts) {
      call([&](dllm_error* err) {
        return dllm_model_save(get(), zero_ended(path).c_str(), opts, handle_of(task), err);
      });
    });
  }

  std::string config() const {
    return text(
        [&](dllm_buffer* out, dllm_error* err) { return dllm_model_config(get(), out, err); });
  }
  std::string describe() const {
    return text(
        [&](dllm_buffer* out, dllm_error* err) { return dllm_model_describe(get(), out, err); });
  }
  int64_t i64(std::string_view key) const {
    return number<int64_t>([&](int64_t* out, dllm_error* err) {
      return dllm_model_i64(get(), zero_ended(key).c_str(), out, err);
    });
  }
  // These return numbers of i64() by name. params() counts the elements of all parameters.
  int64_t vocab() const { return i64("vocab"); }
  int64_t hidden() const { return i64("hidden"); }
  int64_t layers() const { return i64("layers"); }
  int64_t max_length() const { return i64("max_length"); }
  int64_t params() const { return i64("params"); }
  int64_t bytes() const { return i64("bytes"); }
  int32_t mask_id() const { return static_cast<int32_t>(i64("mask_id")); }
  int64_t version() const noexcept { return dllm_model_version(get()); }

  std::vector<std::string> param_names() const {
    std::vector<std::string> names;
    for (int64_t i = 0; i < dllm_model_param_count(get()); ++i)
      names.push_back(or_empty(dllm_model_param_name(get(), i)));
    return names;
  }
  Tensor param(std::string_view name) const {
    return Tensor(make<dllm_tensor>([&](dllm_tensor** out, dllm_error* err) {
      return dllm_model_param(get(), zero_ended(name).c_str(), out, err);
    }));
  }
  void set_param(std::string_view name, const Tensor& value) {
    call([&](dllm_error* err) {
      return dllm_model_set_param(get(), zero_ended(name).c_str(), value.get(), err);
    });
  }
  void set_tokenizer(const Tokenizer& tokenizer) {
    call([&](dllm_error* err) { return dllm_model_set_tokenizer(get(), tokenizer.get(), err); });
  }
  // LoRA adapters (dllm/adapter.h). The settings are of kind "adapter".
  void add_adapter(std::string_view name, const Settings& settings = {},
                   const Task* task = nullptr) {
    settings.with("adapter", [&](const dllm_options* opts) {
      call([&](dllm_error* err) {
        return dllm_model_add_adapter(get(), zero_ended(name).c_str(), opts, handle_of(task), err);
      });
    });
  }
  void load_adapter(std::string_view path, std::string_view name = "default",
                    const Task* task = nullptr) {
    call([&](dllm_error* err) {
      return dllm_model_load_adapter(get(), zero_ended(path).c_str(), zero_ended(name).c_str(),
                                     handle_of(task), err);
    });
  }
  void save_adapter(std::string_view path, std::string_view name = "default",
                    const Task* task = nullptr) const {
    call([&](dllm_error* err) {
      return dllm_model_save_adapter(get(), zero_ended(path).c_str(), zero_ended(name).c_str(),
                                     handle_of(task), err);
    });
  }
  void merge_adapter(std::string_view name, const Task* task = nullptr) {
    call([&](dllm_error* err) {
      return dllm_model_merge_adapter(get(), zero_ended(name).c_str(), handle_of(task), err);
    });
  }
  void merge_adapters(const Task* task = nullptr) {
    call([&](dllm_error* err) {
      return dllm_model_merge_adapter(get(), nullptr, handle_of(task), err);
    });
  }
  void remove_adapter(std::string_view name) {
    call([&](dllm_error* err) {
      return dllm_model_remove_adapter(get(), zero_ended(name).c_str(), err);
    });
  }
  void set_adapter_scale(std::string_view name, double scale) {
    call([&](dllm_error* err) {
      return dllm_model_set_adapter_scale(get(), zero_ended(name).c_str(), scale, err);
    });
  }
  // Returns the list of adapters as JSON.
  std::string adapters() const {
    return text(
        [&](dllm_buffer* out, dllm_error* err) { return dllm_model_adapters(get(), out, err); });
  }
  // Adds the network of another model of the engine as a part that losses can read.
  void add_network(const Model& other, std::string_view name = "teacher") {
    call([&](dllm_error* err) {
      return dllm_model_add_network(get(), other.get(), zero_ended(name).c_str(), err);
    });
  }
  void remove_network(std::string_view name = "teacher") {
    call([&](dllm_error* err) {
      return dllm_model_remove_network(get(), zero_ended(name).c_str(), err);
    });
  }

  // logits[i] predicts token i, also with shift 1. With option shift 0 it comes from its own state.
  Batch forward(const Batch& batch, const Settings& settings = {}, const Task* task = nullptr) {
    return settings.with("forward", [&](const dllm_options* opts) {
      return Batch(make<dllm_batch>([&](dllm_batch** out, dllm_error* err) {
        return dllm_model_forward(get(), batch.get(), opts, handle_of(task), out, err);
      }));
    });
  }

private:
  template <class F> static Model from(const Settings& settings, F&& f) {
    return settings.with("model", [&](const dllm_options* opts) {
      return Model(
          make<dllm_model>([&](dllm_model** out, dllm_error* err) { return f(opts, out, err); }));
    });
  }
};

} // namespace api
} // namespace dllm
#endif
