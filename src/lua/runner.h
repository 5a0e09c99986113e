#pragma once
// A Runner runs Lua scripts that use the library through its C ABI, as the module "dllm".

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
  std::vector<std::string> roots; // folders that scripts may use at level files
  // Bytes of the Lua heap and of the library objects that scripts made; 0: no limit.
  int64_t memory_limit = 0;
  int64_t step_limit = 0;          // steps of one call; 0: no limit
  std::string path;                // folders of modules, separated by ';'
  int64_t seed = 0;                // seed of math.random
  LibraryBytes* library = nullptr; // outlives the runner; null: objects are not counted
  // Returns DLLM_OK, DLLM_CANCELLED or DLLM_DEADLINE_EXCEEDED. It must not be null.
  dllm_status (*task_status)(const dllm_task*) = nullptr;
};

// A Lua state, which runs one call at a time. Every member fails with ScriptError.
class Runner {
public:
  explicit Runner(const RunnerSettings& settings);
  ~Runner();

  void set_json(const std::string& name, std::string_view json);
  // Takes over the handle and releases it when the script no longer uses it.
  void set_object(const std::string& name, const std::string& noun, void* handle);
  // These functions return the values that the script returned, as a JSON array. args_json is a
  // JSON array or empty. The task is checked during the call.
  std::string run_file(const std::string& path, std::string_view args_json, dllm_task* task);
  std::string run_text(const std::string& name, std::string_view code, dllm_task* task);
  std::string call(const std::string& function, std::string_view args_json, dllm_task* task);

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace dllm::lua
