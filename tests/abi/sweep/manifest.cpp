#include "manifest.h"

#include <fstream>
#include <nlohmann/json.hpp>

namespace sweep {
namespace {

using Json = nlohmann::json;

std::optional<int64_t> number(const Json& entry, const char* key) {
  if (!entry.contains(key)) return std::nullopt;
  return entry.at(key).get<int64_t>();
}

Param read_param(const Json& entry) {
  Param param;
  param.name = entry.at("name");
  param.kind = entry.at("kind");
  param.handle = entry.value("handle", "");
  param.elem = entry.value("elem", "");
  param.length = entry.value("length", "");
  param.options = entry.value("options", "");
  param.values = entry.value("values", std::vector<int64_t>());
  param.of = entry.value("of", std::vector<std::string>());
  param.min = number(entry, "min");
  param.max = number(entry, "max");
  param.null = entry.value("null", false);
  param.filled = entry.value("out", false);
  const std::string c = entry.at("c");
  param.pointer =
      c.find('*') != std::string::npos || param.kind == "callback" || param.kind == "hook";
  return param;
}

} // namespace

std::vector<Function> read_manifest(const std::string& path) {
  std::ifstream file(path);
  const Json manifest = Json::parse(file);
  std::vector<Function> functions;
  for (const Json& entry : manifest.at("functions")) {
    Function function;
    function.name = entry.at("name");
    function.result = entry.at("returns").at("kind");
    function.takes = entry.value("takes", "");
    function.threads = entry.at("threads");
    for (const Json& param : entry.at("params")) function.params.push_back(read_param(param));
    functions.push_back(std::move(function));
  }
  return functions;
}

} // namespace sweep
