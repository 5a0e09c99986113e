// dllm run runs a Lua script that uses the library.

#include "../command.h"

#include <nlohmann/json.hpp>

#include <cstdio>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

// Fails for an option of the sandbox after the script. It would be a word of the script, which
// would then run without limits.
void check_words(const Context& context) {
  for (const std::string& word : context.rest()) {
    const std::string name = word.substr(0, word.find('='));
    if (name != "--sandbox" && name != "--lua.sandbox") continue;
    throw UsageFailure(name + " is after the script, where it is a word of the script",
                       "options of dllm come first: dllm run --sandbox files SCRIPT");
  }
}

int run_script(Context& context) {
  check_words(context);
  if (context.has("root")) {
    const std::string roots = Json{{"roots", Json::array({context.text("root")})}}.dump();
    call([&](dllm_error* err) {
      return dllm_options_set_json(context.options("lua"), roots.data(),
                                   static_cast<int64_t>(roots.size()), err);
    });
  }
  const auto lua = make<dllm_lua>([&](dllm_lua** out, dllm_error* err) {
    return dllm_lua_new(context.options("lua"), out, err);
  });
  const std::string json = Json(context.rest()).dump();
  const std::string result = text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_lua_run_file(lua.get(), context.text("script").c_str(), json.data(),
                             static_cast<int64_t>(json.size()), context.task(), out, err);
  });
  if (!result.empty() && result != "null" && result != "[]") std::printf("%s\n", result.c_str());
  return 0;
}

} // namespace

Command run_script_command() {
  using Kind = Argument::Kind;
  // Level full: a user who types a command may use the machine; a library may not.
  return {"run",
          "run a Lua script",
          "dllm run scripts/recipes/train_from_scratch.lua --data corpus.txt",
          {{Kind::positional, "script", "", "the script; options of dllm come before it", true},
           {Kind::text, "root", "", "folder that a script at --sandbox files may reach", false}},
          {"lua"},
          run_script,
          true,
          {{"lua", "sandbox", "full"}}};
}

} // namespace dllm::cli
