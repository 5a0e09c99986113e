#include "base/made_with.h"

#include "base/error.h"
#include "base/files.h"

#include <nlohmann/json.hpp>

namespace dllm {
namespace {

constexpr const char* kWayOut = "set fresh to true to begin again, or name another output";

// name: the path of both values, "" for all settings.
void check_same(const std::string& output, const std::string& name, const Json& there,
                const Json& here) {
  if (there == here) return;
  if (!there.is_object() || !here.is_object()) {
    fail_with_hint(kWayOut, Code::failed_precondition, "{} was made with {} {}, here {}", output,
                   name, there.dump(), here.dump());
  }
  Json keys = here;
  keys.update(there);
  for (const auto& [key, either] : keys.items()) {
    check_same(output, name.empty() ? key : name + "." + key, there.value(key, Json()),
               here.value(key, Json()));
  }
}

} // namespace

std::string settings_path(const std::string& output) {
  return output + ".settings.json";
}

void write_settings(const std::string& file, const Json& settings) {
  write_file_atomic(file, settings.dump(2) + "\n");
}

void check_settings(const std::string& output, const std::string& file, const Json& settings) {
  if (!file_exists(file)) {
    fail_with_hint(kWayOut, Code::failed_precondition,
                   "{} is not continued: {} is missing, which says how it was made", output, file);
  }
  // Numbers are compared as a file holds them.
  check_same(output, "", parse_json(read_text(file), file), parse_json(settings.dump(), file));
}

} // namespace dllm
