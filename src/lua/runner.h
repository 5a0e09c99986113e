#pragma once
// A Lua state that drives the library through its C ABI. One call at a time; its scripts see the module "dllm".

#include "dllm/dllm.h"
#include "lua/state.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::lua {

struct RunnerSettings {
  Level level = Level::safe;
  std::vector<std::string> roots; // of level files
  int64_t memory_limit =
      0; // bytes of the Lua heap and of the library's objects that scripts made; 0: none
  int64_t step_limit = 0;          // of one call; 0: none
  std::string path;                // folders of modules, separated by ';'
  int64_t seed = 0;                // of math.random
  LibraryBytes* library = nullptr; // outlives the runner; null: objects are not counted
  dllm_status (*task_status)(const dllm_task*) =
      nullptr; // not null: DLLM_OK, DLLM_CANCELLED, DLLM_DEADLINE_EXCEEDED
};

// Every member fails with ScriptError.
class Runner {
public:
  explicit Runner(const RunnerSettings& settings);
  ~Runner();

  void set_json(const std::string& name, std::string_view json);
  // Takes the handle over: it is released with the script's last use of it.
  void set_object(const std::string& name, const std::string& noun, void* handle);
  // Results are JSON arrays of what the script returned. args_json: a JSON array, or empty.
  std::string run_file(const std::string& path, std::string_view args_json, dllm_task* task);
  std::string run_text(const std::string& name, std::string_view code, dllm_task* task);
  std::string call(const std::string& function, std::string_view args_json, dllm_task* task);

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace dllm::lua
