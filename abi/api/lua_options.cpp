#include "lua_runner.h"

namespace dllm::abi {

const Schema& lua_schema() {
  static const Schema schema(
      "lua", {option_choice("sandbox", "safe", {"safe", "files", "full"},
                            "safe: no files, processes or native code; files: the library's files below roots too; full: "
                            "everything, with the standard libraries of Lua."),
              option_list("roots", {}, "Folders that level files reaches, with all below them."),
              option_i64("memory_limit", -1, -1, int64_t{1} << 50,
                         "Bytes of the script's heap and of the library's objects that it makes; 0: none, -1: 1 GiB, "
                         "none at level full."),
              option_i64("step_limit", 0, 0, INT64_MAX,
                         "Instructions of one call, and what library functions charge for their work; 0: none."),
              option_str("path", "", "Folders of modules for require, separated by ';' (full level)."),
              option_i64("seed", 0, INT64_MIN, INT64_MAX, "Of math.random, which repeats itself everywhere.")});
  return schema;
}

}  // namespace dllm::abi
