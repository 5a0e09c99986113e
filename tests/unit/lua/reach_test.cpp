// Every text of the ABI is known as a path or as none.

#include "lua/sandbox.h"

#include "dllm/dllm.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <set>
#include <string>

namespace dllm::lua {
namespace {

std::set<std::string> option_kinds() {
  std::set<std::string> kinds;
  for (int64_t i = 0; const char* name = dllm_registry_name("options", i); ++i) kinds.insert(name);
  return kinds;
}

nlohmann::json schema_of(const std::string& kind) {
  dllm_buffer* out = dllm_buffer_new();
  EXPECT_EQ(dllm_options_schema(kind.c_str(), out, nullptr), DLLM_OK) << kind;
  const auto* text = static_cast<const char*>(dllm_buffer_data(out));
  auto json = nlohmann::json::parse(text, text + dllm_buffer_size(out));
  dllm_buffer_release(out);
  return json;
}

TEST(Reach, EveryTextOptionIsListed) {
  int seen = 0;
  for (const std::string& kind : option_kinds()) {
    if (kind == "lua") continue; // scripts make no runners
    const auto schema = schema_of(kind);
    for (const auto& key : schema.at("keys")) {
      const std::string type = key.at("type"), name = key.at("name");
      if ((type != "str" && type != "list") || key.contains("choices")) continue;
      ++seen;
      EXPECT_NE(option_use(kind, name), OptionUse::unlisted)
          << "option " << name << " of " << kind
          << ": list it in src/lua/reach.cpp as a path, as native, or as neither";
    }
  }
  EXPECT_GT(seen, 30);
}

TEST(Reach, ParametersThatAreNoNamesArePaths) {
  std::set<std::string> paths;
  for (const Function& function : manifest().functions) {
    for (const Param& param : function.params) {
      if (is_path(param)) paths.insert(function.name + "." + param.name);
    }
  }
  const std::set<std::string> wanted{
      "dllm_checkpoint_latest.root", "dllm_checkpoint_open.path",  "dllm_checkpoint_restore.dir",
      "dllm_checkpoint_save.root",   "dllm_dataset_open.path",     "dllm_dataset_save.path",
      "dllm_engine_plan.path",       "dllm_model_load.path",       "dllm_model_save.path",
      "dllm_model_quantize.path",    "dllm_model_quantize.target", "dllm_plugin_describe.plugin",
      "dllm_tokenizer_load.path",    "dllm_tokenizer_save.path",   "dllm_trainer_add_sink.target"};
  for (const std::string& path : wanted) EXPECT_TRUE(paths.contains(path)) << path;
  for (const std::string& path : paths)
    EXPECT_TRUE(wanted.contains(path)) << path << " is checked as a path: is it one?";
}

} // namespace
} // namespace dllm::lua
