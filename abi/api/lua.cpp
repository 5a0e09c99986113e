#include "dllm/lua.h"

#include "base/named_table.h"
#include "base/threads/meter.h"
#include "handles.h"
#include "lua/runner.h"

#include <optional>

using namespace dllm;
using namespace dllm::abi;

namespace dllm::abi {

// Shows a runner the meter that counts the arrays of its thread.
class MeteredBytes final : public lua::LibraryBytes {
public:
  explicit MeteredBytes(int64_t limit) : meter_(std::make_shared<Meter>(limit)) {}
  int64_t used() const override { return meter_->used(); }
  void add(int64_t bytes) override { meter_->release(-bytes); }
  void watch(const int64_t* heap) override { meter_->set_other_bytes(heap); }
  const MeterRef& meter() const { return meter_; }

private:
  MeterRef meter_;
};

} // namespace dllm::abi

namespace {

dllm_status status_of_task(const dllm_task* task) {
  if (task->object.is_cancelled()) return DLLM_CANCELLED;
  return task->object.is_late() ? DLLM_DEADLINE_EXCEEDED : DLLM_OK;
}

int64_t memory_limit_of(const Options& options) {
  const int64_t limit = options.i64("memory_limit");
  if (limit >= 0) return limit;
  return options.str("sandbox") == "full" ? 0 : int64_t{1} << 30;
}

lua::Level level_of(const std::string& name) {
  return name == "full" ? lua::Level::full : name == "files" ? lua::Level::files : lua::Level::safe;
}

} // namespace

struct dllm_lua : Handle<Kind::lua> {
  explicit dllm_lua(const Options& options)
      : bytes(memory_limit_of(options)),
        object({level_of(options.str("sandbox")), options.list("roots"), bytes.meter()->limit(),
                options.i64("step_limit"), options.str("path"), options.i64("seed"), &bytes,
                status_of_task}) {}
  ~dllm_lua() { bytes.watch(nullptr); } // arrays may outlive the runner

  MeteredBytes bytes;
  lua::Runner object;
};

namespace {

// Returns a second handle to the same object, which the script owns.
template <class H> void* another(void* object) {
  return new H(need(static_cast<H*>(object), "object").object);
}

struct Noun {
  std::string_view name;
  void* (*copy)(void*);
};

// The kinds of objects that a script can share with the host. Loaders, trainers and decoders are
// not in the table, because they belong to one caller at a time.
constexpr Noun kNouns[] = {
    {"batch", another<dllm_batch>},         {"dataset", another<dllm_dataset>},
    {"engine", another<dllm_engine>},       {"model", another<dllm_model>},
    {"objective", another<dllm_objective>}, {"schedule", another<dllm_schedule>},
    {"tensor", another<dllm_tensor>},       {"tokenizer", another<dllm_tokenizer>},
};

void* copy_handle(const char* kind, void* object) {
  if (object == nullptr) fail(Code::invalid_argument, "object is NULL");
  const Lookup lookup{"kind of object", "that a script can share",
                      "a script makes its own trainer, loader and decoder"};
  return need_named(kNouns, kind, &Noun::name, lookup).copy(object);
}

// Calls f as guard() does, and converts an exception of the runner to an exception of the core.
template <class F> dllm_status script_guard(dllm_error* err, F&& f) {
  return guard(err, [&] {
    try {
      f();
    } catch (const lua::ScriptError& e) {
      throw Error(static_cast<Code>(e.status()), e.what(), e.hint());
    }
  });
}

std::string_view args_of(const char* args_json, int64_t size) {
  return need_content(args_json, size, "args_json");
}

void answer(dllm_buffer* out_json, std::string json) {
  if (out_json != nullptr) fill(out_json, std::move(json), "out_json");
}

} // namespace

dllm_status dllm_lua_new(const dllm_options* opts, dllm_lua** out, dllm_error* err) {
  return script_guard(err, [&] {
    need_out(out, "out");
    const Options options = options_of(opts, "lua");
    *out = new dllm_lua(options);
  });
}

void dllm_lua_release(dllm_lua* lua) {
  release(lua);
}

dllm_status dllm_lua_set_json(dllm_lua* lua, const char* name, const char* json, int64_t size,
                              dllm_error* err) {
  return script_guard(err, [&] {
    lua::Runner& runner = need_own(lua, "lua").object;
    if (json == nullptr) fail(Code::invalid_argument, "json is NULL");
    runner.set_json(need_text(name, "name"), need_content(json, size, "json"));
  });
}

dllm_status dllm_lua_set_object(dllm_lua* lua, const char* name, const char* kind, void* object,
                                dllm_error* err) {
  return script_guard(err, [&] {
    lua::Runner& runner = need_own(lua, "lua").object;
    const char* global = need_text(name, "name");
    const char* noun = need_text(kind, "kind");
    runner.set_object(global, noun, copy_handle(noun, object));
  });
}

dllm_status dllm_lua_run_file(dllm_lua* lua, const char* path, const char* args_json, int64_t size,
                              dllm_task* task, dllm_buffer* out_json, dllm_error* err) {
  return script_guard(err, [&] {
    lua::Runner& runner = need_own(lua, "lua").object;
    task_of(task);
    optional(out_json, "out_json");
    const MeterScope metered(lua->bytes.meter());
    answer(out_json, runner.run_file(need_text(path, "path"), args_of(args_json, size), task));
  });
}

dllm_status dllm_lua_run_text(dllm_lua* lua, const char* name, const char* code, int64_t size,
                              dllm_task* task, dllm_buffer* out_json, dllm_error* err) {
  return script_guard(err, [&] {
    lua::Runner& runner = need_own(lua, "lua").object;
    task_of(task);
    optional(out_json, "out_json");
    const MeterScope metered(lua->bytes.meter());
    answer(out_json,
           runner.run_text(need_text(name, "name"), need_content(code, size, "code"), task));
  });
}

dllm_status dllm_lua_call(dllm_lua* lua, const char* function, const char* args_json, int64_t size,
                          dllm_task* task, dllm_buffer* out_json, dllm_error* err) {
  return script_guard(err, [&] {
    lua::Runner& runner = need_own(lua, "lua").object;
    task_of(task);
    optional(out_json, "out_json");
    const MeterScope metered(lua->bytes.meter());
    answer(out_json, runner.call(need_text(function, "function"), args_of(args_json, size), task));
  });
}
