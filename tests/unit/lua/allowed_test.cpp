// Every function and option of the ABI is in a list: what a script may reach through it.

#include "lua/allowed.h"

#include "dllm/dllm.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <set>
#include <string>
#include <vector>

namespace dllm::lua {
namespace {

using Json = nlohmann::json;

std::set<std::string> option_kinds() {
  std::set<std::string> kinds;
  for (int64_t i = 0; const char* name = dllm_registry_name("options", i); ++i) kinds.insert(name);
  return kinds;
}

Json keys_of(const std::string& kind) {
  dllm_buffer* out = dllm_buffer_new();
  EXPECT_EQ(dllm_options_schema(kind.c_str(), out, nullptr), DLLM_OK) << kind;
  const auto* text = static_cast<const char*>(dllm_buffer_data(out));
  Json json = Json::parse(text, text + dllm_buffer_size(out));
  dllm_buffer_release(out);
  return json.at("keys");
}

bool is_number(const Json& key) {
  const std::string type = key.at("type");
  return type != "str" && type != "list";
}

// A value that the schema takes and that is not the default.
Json other_value(const Json& key) {
  const std::string type = key.at("type");
  const Json& usual = key.at("default");
  if (type == "bool") return !usual.get<bool>();
  if (type == "list") return Json::array({"x"});
  if (type == "i64") return usual.get<int64_t>() + 1;
  if (type == "f64") return usual.get<double>() / 2;
  if (!key.contains("choices")) return "x";
  for (const Json& choice : key.at("choices")) {
    if (choice != usual) return choice;
  }
  return usual;
}

// What is refused on purpose: it loads native code, or a compiler writes files.
const std::set<std::string> kRefused = {"engine.kind",
                                        "engine.processes",
                                        "engine.plugin",
                                        "engine.target",
                                        "engine.pjrt.device",
                                        "engine.pjrt.compute",
                                        "engine.pjrt.cache",
                                        "engine.pjrt.precision",
                                        "engine.pjrt.in_flight",
                                        "engine.pjrt.cache_limit",
                                        "engine.pjrt.client",
                                        "engine.pjrt.flags",
                                        "hub.attempts",
                                        "hub.dataset",
                                        "hub.file",
                                        "hub.offline",
                                        "hub.revision",
                                        "hub.weights"};

TEST(Allowed, EveryOptionIsListedOrRefusedOnPurpose) {
  std::set<std::string> refused;
  for (const std::string& kind : option_kinds()) {
    if (kind == "lua") continue; // scripts make no runners
    for (const Json& key : keys_of(kind)) {
      const std::string name = key.at("name");
      if (option_use(kind, name, is_number(key)) == OptionUse::default_)
        refused.insert(kind + "." + name);
    }
  }
  for (const std::string& name : refused) {
    EXPECT_TRUE(kRefused.contains(name))
        << name << " is refused below level full: list it in src/lua/allowed.cpp, or here";
  }
  for (const std::string& name : kRefused)
    EXPECT_TRUE(refused.contains(name)) << name << " is allowed, or gone";
}

TEST(Allowed, WhatIsInNoListIsRefused) {
  EXPECT_EQ(option_use("engine", "new_number", true), OptionUse::default_);
  EXPECT_EQ(option_use("model", "new_text", false), OptionUse::default_);
  EXPECT_EQ(option_use("new_kind", "number", true), OptionUse::default_);
  EXPECT_EQ(option_use("engine", "thread", false), OptionUse::default_) << "part of a listed word";
  EXPECT_EQ(option_use("engine", "", false), OptionUse::default_);
  for (const char* name : {"dllm_model_load_native", "dllm_new_thing", "dllm_new", "dllm_", "dllm",
                           "dllmx_decoder_load", "dllmx_model_load", "dllm_trainer", ""})
    EXPECT_EQ(function_use(name), FunctionUse::full_only) << name;
}

TEST(Allowed, EveryFunctionIsListedOrRefusedOnPurpose) {
  std::set<std::string> full_only = {
      "dllm_plugin_list", "dllm_plugin_describe", "dllm_log_config",
      "dllm_log_next",    "dllm_hub_pull",        "dllm_hub_describe",
      "dllm_hub_list",    "dllm_hub_verify",      "dllm_hub_remove"};
  // The thread of a queue has no limit of memory.
  for (const char* name : {"load", "new", "release", "submit", "wait", "text", "describe", "cancel",
                           "remove", "drain", "model", "tokenizer"})
    full_only.insert(std::string("dllm_queue_") + name);
  std::set<std::string> seen;
  for (const Function& function : manifest().functions) {
    seen.insert(function.name);
    const bool is_refused = function_use(function.name) == FunctionUse::full_only;
    EXPECT_EQ(is_refused, full_only.contains(function.name))
        << function.name << ": list it in src/lua/allowed.cpp, or here";
  }
  for (const std::string& name : full_only) EXPECT_TRUE(seen.contains(name)) << name;
}

// A script sets each option that is refused, at both levels below full, and the one that every
// level has.
TEST(Allowed, ScriptsCannotSetWhatIsRefused) {
  struct Run {
    std::string level, code;
    dllm_status status;
  };
  struct Call {
    std::string kind, begin; // of a script that sets options of this kind
  };
  std::vector<Run> runs;
  for (const Call& call :
       {Call{"engine", "require'dllm'.engine("}, Call{"hub", "require'dllm'.pull('org/name', "}}) {
    for (const Json& key : keys_of(call.kind)) {
      const std::string name = key.at("name");
      const Json list = other_value(key);
      const std::string value = list.is_array() ? "{\"x\"}" : list.dump();
      const std::string code = call.begin + "{ [\"" + name + "\"] = " + value + " })";
      for (const char* level : {"safe", "files"}) {
        if (kRefused.contains(call.kind + "." + name))
          runs.push_back({level, code, DLLM_PERMISSION_DENIED});
      }
    }
  }
  runs.push_back({"safe", "require'dllm'.engine { threads = 1 }", DLLM_OK});
  EXPECT_EQ(runs.size(), 2 * kRefused.size() + 1);
  for (const Run& run : runs) {
    dllm_options* options = nullptr;
    ASSERT_EQ(dllm_options_new("lua", &options, nullptr), DLLM_OK);
    ASSERT_EQ(dllm_options_set_str(options, "sandbox", run.level.c_str(), nullptr), DLLM_OK);
    dllm_lua* lua = nullptr;
    ASSERT_EQ(dllm_lua_new(options, &lua, nullptr), DLLM_OK);
    dllm_error* error = dllm_error_new();
    EXPECT_EQ(dllm_lua_run_text(lua, "x", run.code.data(), static_cast<int64_t>(run.code.size()),
                                nullptr, nullptr, error),
              run.status)
        << run.level << ": " << run.code << ": " << dllm_error_message(error);
    dllm_error_release(error);
    dllm_lua_release(lua);
    dllm_options_release(options);
  }
}

TEST(Allowed, ParametersThatAreNoNamesArePaths) {
  std::set<std::string> paths;
  for (const Function& function : manifest().functions) {
    for (const Param& param : function.params) {
      if (is_path(param)) paths.insert(function.name + "." + param.name);
    }
  }
  const std::set<std::string> wanted{"dllm_checkpoint_latest.root",
                                     "dllm_checkpoint_open.path",
                                     "dllm_checkpoint_check.dir",
                                     "dllm_checkpoint_restore.dir",
                                     "dllm_checkpoint_latest_task.root",
                                     "dllm_checkpoint_open_task.path",
                                     "dllm_tokenizer_load_task.path",
                                     "dllm_checkpoint_save.root",
                                     "dllm_dataset_extract_trajectories.path",
                                     "dllm_dataset_open.path",
                                     "dllm_dataset_save.path",
                                     "dllm_engine_plan.path",
                                     "dllm_generator_load.path",
                                     "dllm_queue_load.path",
                                     "dllm_loader_write_anchors.path",
                                     "dllm_model_load.path",
                                     "dllm_model_save.path",
                                     "dllm_model_load_adapter.path",
                                     "dllm_model_save_adapter.path",
                                     "dllm_model_quantize.path",
                                     "dllm_model_quantize.target",
                                     "dllm_plugin_describe.plugin",
                                     "dllm_tokenizer_load.path",
                                     "dllm_tokenizer_save.path",
                                     "dllm_trainer_add_sink.target"};
  for (const std::string& path : wanted) EXPECT_TRUE(paths.contains(path)) << path;
  for (const std::string& path : paths)
    EXPECT_TRUE(wanted.contains(path)) << path << " is checked as a path: is it one?";
}

} // namespace
} // namespace dllm::lua
