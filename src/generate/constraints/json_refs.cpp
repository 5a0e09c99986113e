#include "generate/constraints/json_refs.h"

#include "base/error.h"

#include <nlohmann/json.hpp>

namespace dllm::generate {
namespace {

// Returns null when no part has the anchor.
const Json* with_anchor(const Json& part, const std::string& name) {
  if (part.is_object() && part.value("$anchor", Json()) == Json(name)) return &part;
  if (!part.is_structured()) return nullptr;
  for (const Json& inner : part) {
    if (const Json* found = with_anchor(inner, name)) return found;
  }
  return nullptr;
}

} // namespace

std::string target_of_ref(const Json& schema, const std::string& where) {
  const std::string target = schema["$ref"].is_string() ? schema["$ref"].get<std::string>() : "";
  if (!target.starts_with("#")) {
    fail_with_hint("put the schema into $defs", Code::invalid_argument,
                   "{}: $ref does not begin with #/", where);
  }
  return target;
}

const Json& schema_at(const Json& root, const std::string& target, const std::string& where) {
  const Json* found = nullptr;
  try {
    if (target == "#" || target.starts_with("#/"))
      found = &root.at(Json::json_pointer(target.substr(1)));
    else
      found = with_anchor(root, target.substr(1));
  } catch (const nlohmann::json::exception&) {
  }
  if (found == nullptr) {
    fail_with_hint("$ref names a schema of $defs", Code::invalid_argument, "{}: there is no {}",
                   where, target);
  }
  return *found;
}

} // namespace dllm::generate
