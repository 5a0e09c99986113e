#include "lua/runner.h"

#include "lua/raw_call.h"
#include "lua/sandbox.h"
#include "lua/state.h"

#include <lauxlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

namespace dllm::lua {
namespace {

dllm_status status_of(const std::string& code) {
  for (dllm_status status = 0; status <= DLLM_SCRIPT_FAILED; ++status) {
    if (code == dllm_status_name(status)) return status;
  }
  return DLLM_SCRIPT_FAILED;
}

std::string field(lua_State* L, const char* key) {
  lua_getfield(L, -1, key);
  size_t size = 0;
  const char* text = lua_tolstring(L, -1, &size);
  std::string value = text == nullptr ? std::string() : std::string(text, size);
  lua_pop(L, 1);
  return value;
}

std::string read_file(const std::string& path) {
  // Only regular files are read: a pipe without a writer blocks, and a device never ends.
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (std::filesystem::is_directory(status)) {
    throw ScriptError(DLLM_INVALID_ARGUMENT, path + " is a folder, not a script");
  }
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw ScriptError(DLLM_INVALID_ARGUMENT,
                      path + " is not a regular file: it is a pipe, a socket or a device");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) throw ScriptError(DLLM_NOT_FOUND, "there is no file or folder " + path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.rfind("#!", 0) == 0) text.insert(0, "--"); // a script may name its interpreter
  return text;
}

} // namespace

// A call of a script. The host owns the task, which is not kept after the call.
class ScriptCall {
public:
  explicit ScriptCall(Shared& shared) : shared_(shared) { shared.in_call = true; }
  ~ScriptCall() {
    shared_.in_call = false;
    shared_.task = nullptr;
  }
  ScriptCall(const ScriptCall&) = delete;
  ScriptCall& operator=(const ScriptCall&) = delete;

private:
  Shared& shared_;
};

// While the host sets a value, no step limit applies and no finalizer of a script runs.
class HostsWork {
public:
  HostsWork(Shared& shared, lua_State* L)
      : shared_(shared), limit_(std::exchange(shared.step_limit, 0)) {
    start_budget(L, nullptr);
  }
  ~HostsWork() { shared_.step_limit = limit_; }
  HostsWork(const HostsWork&) = delete;
  HostsWork& operator=(const HostsWork&) = delete;

private:
  Shared& shared_;
  int64_t limit_;
};

struct Runner::State {
  Shared shared;
  lua_State* L = nullptr;

  ~State() {
    close();
    dllm_error_release(shared.error);
  }

  // Runs `body` protected and throws its error.
  template <class F> void guarded(F&& body);
  template <class F>
  std::string run(std::string_view args_json, dllm_task* task, F&& push_function,
                  std::string_view script = {});
  void open(const RunnerSettings& settings);
  void close();
  [[noreturn]] void fail_with_top();
};

// Boxes release their handles; no code of a script runs.
void Runner::State::close() {
  if (L == nullptr) return;
  shared.closing = true;
  lua_close(L);
  L = nullptr;
}

// Throws the error table (or the allocator's message) on top of the stack as an exception.
void Runner::State::fail_with_top() {
  dllm_status status = DLLM_SCRIPT_FAILED;
  std::string message = "unknown error", hint, trace;
  if (lua_istable(L, -1)) {
    status = status_of(field(L, "code"));
    message = field(L, "message"), hint = field(L, "hint"), trace = field(L, "traceback");
  } else if (const char* text = lua_tostring(L, -1)) {
    message = text;
  }
  lua_settop(L, 0);
  if (shared.stop != DLLM_OK) {
    throw ScriptError(shared.stop, stop_message(shared),
                      shared.stop == DLLM_RESOURCE_EXHAUSTED ? "raise option step_limit" : "");
  }
  if (message == kNoMemory) {
    lua_gc(L, LUA_GCCOLLECT, 0);
    throw ScriptError(
        DLLM_RESOURCE_EXHAUSTED,
        "the script needs more memory than its limit of " + std::to_string(shared.limit) + " bytes",
        "raise option memory_limit; below level full a text has at most 32 MiB, a table 128 MiB");
  }
  throw ScriptError(status, message,
                    hint.empty() || trace.empty() ? hint + trace : hint + "\n" + trace);
}

template <class F> void Runner::State::guarded(F&& body) {
  using Body = std::remove_reference_t<F>;
  lua_settop(L, 0);
  lua_pushcfunction(L, with_traceback);
  lua_pushcfunction(L, [](lua_State* inner) {
    (*static_cast<Body*>(lua_touserdata(inner, 1)))();
    return 0;
  });
  lua_pushlightuserdata(L, const_cast<std::remove_const_t<Body>*>(&body));
  if (lua_pcall(L, 1, 0, 1) != LUA_OK) fail_with_top();
  lua_settop(L, 0);
}

void Runner::State::open(const RunnerSettings& settings) {
  const bool full = settings.level == Level::full;
  open_libraries(L, full);
  open_searchers(L, full, settings.path);
  open_boxes(L);
  // The module "dllm" is an embedded file. It gets the raw functions as its argument, and no other
  // code does.
  lua_getglobal(L, "require");
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  push_raw(L);
  open_json(L);
  lua_setfield(L, -2, "json");
  for (const char* noun :
       {"engine", "model", "tokenizer", "answer", "dataset", "loader", "batch", "schedule",
        "objective", "trainer", "decoder", "generator", "checkpoint", "tensor", "source", "task"}) {
    luaL_getmetatable(L, (std::string("dllm.") + noun).c_str());
    lua_getfield(L, -1, "__index");
    lua_setfield(L, -3, (std::string("class_") + noun).c_str());
    lua_pop(L, 1);
  }
  lua_pushinteger(L, settings.seed);
  lua_setfield(L, -2, "seed");
  lua_setfield(L, -2, "dllm.raw");
  lua_pop(L, 1);
  lua_pushliteral(L, "dllm");
  lua_call(L, 1, 1);
  lua_setglobal(L, "dllm");
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_pushnil(L);
  lua_setfield(L, -2, "dllm.raw");
}

// Calls the function that push_function pushes with the elements of args_json. Returns the results
// as a JSON array. script: arg[0], if it is not empty.
template <class F>
std::string Runner::State::run(std::string_view args_json, dllm_task* task, F&& push_function,
                               std::string_view script) {
  start_budget(L, task);
  std::string json = "[";
  const auto body = [&] {
    push_function();
    const int function = lua_gettop(L);
    int count = 0;
    if (!args_json.empty()) {
      push_json(L, args_json);
      if (!lua_istable(L, -1)) raise(L, "invalid_argument", "args_json is not a JSON array", "");
      if (!script.empty()) { // as the program lua does
        lua_pushlstring(L, script.data(), script.size());
        lua_rawseti(L, -2, 0);
      }
      lua_pushvalue(L, -1);
      lua_setglobal(L, "arg");
      count = static_cast<int>(lua_rawlen(L, -1));
      luaL_checkstack(L, count + 8, "too many arguments");
      for (int i = 1; i <= count; ++i) lua_rawgeti(L, function + 1, i);
      lua_remove(L, function + 1);
    }
    lua_call(L, count, LUA_MULTRET);
    for (int i = function; i <= lua_gettop(L); ++i)
      json += (i > function ? "," : "") + to_json(L, i);
  };
  const ScriptCall call(shared);
  guarded(body);
  // A stopped call fails, even if a handler caught the error.
  if (shared.stop != DLLM_OK) throw ScriptError(shared.stop, stop_message(shared));
  return json + "]";
}

Runner::Runner(const RunnerSettings& settings) : state_(std::make_unique<State>()) {
  Shared& shared = state_->shared;
  shared.error = dllm_error_new();
  shared.level = settings.level;
  shared.task_status = settings.task_status;
  shared.library = settings.library;
  if (shared.library != nullptr) shared.library->watch(&shared.heap);
  if (settings.level == Level::files) shared.roots = open_roots(settings.roots);
  state_->L = lua_newstate(allocate, &state_->shared);
  if (state_->L == nullptr) throw ScriptError(DLLM_RESOURCE_EXHAUSTED, "no memory for a Lua state");
  open_budget(state_->L);
  state_->guarded([&] { state_->open(settings); });
  shared.limit = settings.memory_limit;
  shared.step_limit = settings.step_limit;
}

Runner::~Runner() = default;

void Runner::set_json(const std::string& name, std::string_view json) {
  const HostsWork work(state_->shared, state_->L);
  state_->guarded([&] {
    push_json(state_->L, json);
    lua_setglobal(state_->L, name.c_str());
  });
}

void Runner::set_object(const std::string& name, const std::string& noun, void* handle) {
  const HostsWork work(state_->shared, state_->L);
  state_->guarded([&] {
    push_box(state_->L, noun, handle);
    lua_setglobal(state_->L, name.c_str());
  });
}

std::string Runner::run_file(const std::string& path, std::string_view args_json, dllm_task* task) {
  const std::string code = read_file(path);
  lua_State* L = state_->L;
  const auto push_script = [&] {
    // At level full `require` also finds modules in the folder of the script.
    if (state_->shared.level == Level::full) {
      const size_t slash = path.rfind('/');
      const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash);
      lua_getglobal(L, "package");
      lua_getfield(L, -1, "path");
      const std::string before = lua_tostring(L, -1);
      if (before.find(folder + "/?.lua") == std::string::npos) {
        lua_pushstring(L, (folder + "/?.lua" + (before.empty() ? "" : ";" + before)).c_str());
        lua_setfield(L, -3, "path");
      }
      lua_pop(L, 2);
    }
    load_text(L, code.data(), code.size(), ("@" + path).c_str());
  };
  return state_->run(args_json, task, push_script, path);
}

std::string Runner::run_text(const std::string& name, std::string_view code, dllm_task* task) {
  lua_State* L = state_->L;
  return state_->run({}, task,
                     [&] { load_text(L, code.data(), code.size(), ("=" + name).c_str()); });
}

std::string Runner::call(const std::string& function, std::string_view args_json, dllm_task* task) {
  lua_State* L = state_->L;
  return state_->run(args_json, task, [&] {
    lua_pushglobaltable(L);
    for (size_t begin = 0; begin <= function.size();) {
      const size_t end = std::min(function.find('.', begin), function.size());
      if (!lua_istable(L, -1)) break;
      lua_getfield(L, -1, function.substr(begin, end - begin).c_str());
      lua_remove(L, -2);
      begin = end + 1;
    }
    if (!lua_isfunction(L, -1))
      raise(L, "not_found", ("there is no function " + function).c_str(), "");
  });
}

} // namespace dllm::lua
