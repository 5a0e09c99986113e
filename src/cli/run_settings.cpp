#include "run_settings.h"
#include "command.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace dllm::cli {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kKind = "dataset.";
constexpr const char* kRowsFile = "dllm_rows.json"; // of a folder that dllm export made

// Returns a member that is an object; an empty object for others.
Json object_in(const Json& value, const char* key) {
  const auto found = value.is_object() ? value.find(key) : value.end();
  return found != value.end() && found->is_object() ? *found : Json::object();
}

RowSettings settings_in(const std::string& file) {
  RowSettings made{Json::object(), ""};
  if (file.empty()) return made;
  std::ifstream stream(file, std::ios::binary);
  const Json start = Json::parse(stream, nullptr, false);
  const Json settings = object_in(start, "settings");
  for (const auto& [key, value] : settings.items()) {
    if (key.starts_with(kKind) && key != "dataset.token_file")
      made.dataset[key.substr(kKind.size())] = value;
  }
  if (start.is_object() && start.contains("form") && start["form"].is_string())
    made.form = start["form"].get<std::string>();
  return made;
}

} // namespace

std::string run_settings_file(const std::string& model) {
  std::error_code ignored;
  // The names of the folders above "." are known by the full path alone.
  fs::path folder = fs::absolute(model, ignored).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path(); // "runs/a/"
  const fs::path own = folder / kRowsFile; // a checkpoint may have its base's file
  constexpr int kMostLevels = 4;           // RUN/best/step_000100/model
  for (int level = 0; level < kMostLevels && !folder.empty(); ++level) {
    const fs::path file = folder / "run.json";
    if (fs::is_regular_file(file, ignored)) return file.string();
    const std::string name = folder.filename();
    const bool is_part = name == "best" || name == "model" || name.rfind("step_", 0) == 0;
    if (!is_part) break;
    folder = folder.parent_path();
  }
  return fs::is_regular_file(own, ignored) ? own.string() : "";
}

std::string RowSettings::chat_template() const {
  if (form == "instructions") return "alpaca";
  const auto found = dataset.find("template");
  return found != dataset.end() && found->is_string() ? found->get<std::string>() : "";
}

RowSettings row_settings_of(const std::string& model, const Context& context) {
  const auto adapter = Json::parse(context.option("model", "adapter")).get<std::string>();
  const std::string file = adapter.empty() ? "" : run_settings_file(adapter);
  return settings_in(file.empty() ? run_settings_file(model) : file);
}

RowSettings row_settings(const Context& context) {
  return row_settings_of(context.text("model"), context);
}

void keep_row_settings(const std::string& from, const std::string& to) {
  const RowSettings rows = settings_in(run_settings_file(from));
  if (rows.dataset.empty() && rows.form.empty()) return;
  if (!fs::is_directory(to)) {
    if (rows.form != "instructions" && !rows.chat_template().empty()) {
      std::fprintf(stderr,
                   "note: a file does not say that prompts with responses were conversations: dllm "
                   "eval --template scores them so\n");
    }
    return;
  }
  Json settings = Json::object();
  for (const auto& [key, value] : rows.dataset.items()) settings[std::string(kKind) + key] = value;
  const Json kept = {{"form", rows.form}, {"settings", std::move(settings)}};
  write_all(to + "/" + kRowsFile, kept.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

} // namespace dllm::cli
