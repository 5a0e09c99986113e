#include "models_file.h"

#include "asked.h"
#include "shallow_json.h"

#include <algorithm>
#include <filesystem>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

// Reads one model of the file. `where` begins each message.
class EntryReader {
public:
  EntryReader(const fs::path& folder, std::string where)
      : folder_(folder), where_(std::move(where)) {}

  ModelEntry read(const std::string& name, const Json& given, const ModelEntry& defaults) const {
    ModelEntry entry = defaults;
    entry.name = name;
    if (given.is_string()) {
      entry.path = path_of(given.get<std::string>());
      return entry;
    }
    if (!given.is_object()) fail("is a path, or an object with \"model\"");
    for (const auto& [key, value] : given.items()) take(entry, key, value);
    if (entry.path.empty()) fail("has no \"model\": a folder, a file, a run or a name of the hub");
    return entry;
  }

private:
  [[noreturn]] void fail(const std::string& what) const { throw UsageFailure(where_ + ' ' + what); }

  void take(ModelEntry& entry, const std::string& key, const Json& value) const {
    if (key == "settings") {
      if (!value.is_object()) fail("has settings that are not an object");
      entry.settings = request_defaults(value, where_);
    } else if (key == "adapters") {
      if (!value.is_array()) fail("has adapters that are not a list, as [\"poet=runs/poet\"]");
      for (const Json& one : value) entry.adapters.push_back(adapter_of(one));
    } else if (key == "model") {
      entry.path = path_of(text_of(key, value));
    } else if (key == "template") {
      entry.chat_template = template_text(path_of(text_of(key, value)));
    } else {
      fail("has the key \"" + key + "\"; the keys are model, template, settings and adapters");
    }
  }

  std::string text_of(const std::string& key, const Json& value) const {
    if (!value.is_string() || value.get_ref<const std::string&>().empty())
      fail("has a value of \"" + key + "\" that is not a text");
    return value.get<std::string>();
  }

  std::string adapter_of(const Json& value) const {
    const std::string text = text_of("adapters", value);
    const size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == text.size())
      fail("has the adapter \"" + text + "\", which is not NAME=PATH");
    return text.substr(0, equals + 1) + path_of(text.substr(equals + 1));
  }

  std::string path_of(const std::string& word) const {
    std::error_code ignored;
    const fs::path inside = folder_ / word;
    return fs::exists(inside, ignored) ? inside.string() : word;
  }

  const fs::path folder_;
  const std::string where_;
};

} // namespace

Json request_defaults(const Json& given, const std::string& where) {
  Json settings = Json::object();
  for (const auto& [key, value] : given.items())
    take_setting(settings, key, value, where + ": " + key);
  return settings;
}

std::vector<ModelEntry> read_models_file(const std::string& path, const ModelEntry& defaults) {
  constexpr const char* kForm = "write {\"NAME\": PATH, \"NAME\": {\"model\": PATH}}";
  const Json models = parse_shallow(read_utf8(path));
  if (!models.is_object() || models.empty())
    throw UsageFailure("--models: " + path + " is not a JSON object of models by name", kForm);
  std::vector<ModelEntry> entries;
  for (const auto& [name, given] : models.items()) {
    if (name.empty() || name.find(':') != std::string::npos) {
      throw UsageFailure("--models: the name \"" + name + "\" is empty or has a colon",
                         "clients ask for NAME, and for NAME:ADAPTER");
    }
    if (std::ranges::any_of(name, [](unsigned char c) { return c < ' '; }))
      throw UsageFailure("--models: a name has a control character", "name it in plain text");
    const EntryReader reader(fs::path(path).parent_path(), "--models: model \"" + name + "\"");
    entries.push_back(reader.read(name, given, defaults));
  }
  return entries;
}

} // namespace dllm::cli
