#include "lua_runner.h"

namespace dllm::abi {

const Schema& lua_schema() {
  static const Schema schema(
      "lua", {option_choice("sandbox", "safe", {"safe", "full"},
                            "safe: no files, processes or native code; full: the standard libraries of Lua."),
              option_i64("memory_limit", int64_t{1} << 30, 0, int64_t{1} << 50, "Bytes of the script's own heap; 0: none."),
              option_str("path", "", "Folders of modules for require, separated by ';' (full level)."),
              option_i64("seed", 0, INT64_MIN, INT64_MAX, "Of math.random, which repeats itself everywhere.")});
  return schema;
}

}  // namespace dllm::abi
