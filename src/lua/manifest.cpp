#include "lua/state.h"

#include "lua/sandbox.h"

#include <dlfcn.h>

#include <nlohmann/json.hpp>

#include <optional>

#include "dllm/dllm.h"

namespace dllm::lua {
namespace {

using ManifestJson = nlohmann::json;

// Returns the handle of this library, because a host may have loaded another one with the same
// names.
void* own_library() {
  static void* const handle = [] {
    Dl_info info{};
    if (dladdr(reinterpret_cast<void*>(&dllm_abi_version), &info) == 0)
      return static_cast<void*>(nullptr);
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  return handle != nullptr ? handle : RTLD_DEFAULT;
}

Element element_of(const std::string& name) {
  if (name == "i64") return Element::i64;
  if (name == "u8") return Element::u8;
  if (name == "f32") return Element::f32;
  if (name == "f64") return Element::f64;
  return name == "byte" ? Element::byte : Element::i32;
}

std::optional<ParamKind> kind_of(const ManifestJson& param) {
  const std::string kind = param.at("kind");
  if (kind == "handle") {
    if (param.at("handle") == "error") return ParamKind::error;
    return param.value("out", false) ? ParamKind::out_buffer : ParamKind::handle;
  }
  constexpr std::pair<const char*, ParamKind> kKinds[] = {{"out_handle", ParamKind::out_handle},
                                                          {"str", ParamKind::text},
                                                          {"bytes", ParamKind::bytes},
                                                          {"array", ParamKind::array},
                                                          {"shaped", ParamKind::shaped},
                                                          {"dst", ParamKind::dst},
                                                          {"length", ParamKind::length},
                                                          {"i32", ParamKind::i32},
                                                          {"i64", ParamKind::i64},
                                                          {"f64", ParamKind::f64},
                                                          {"out_number", ParamKind::out_number},
                                                          {"callback", ParamKind::callback},
                                                          {"user_data", ParamKind::user_data}};
  for (const auto& [name, value] : kKinds) {
    if (kind == name) return value;
  }
  return std::nullopt;
}

std::optional<ResultKind> result_of(const std::string& kind) {
  constexpr std::pair<const char*, ResultKind> kKinds[] = {
      {"status", ResultKind::status}, {"void", ResultKind::nothing}, {"i32", ResultKind::i32},
      {"i64", ResultKind::i64},       {"str", ResultKind::text},     {"handle", ResultKind::handle},
      {"array", ResultKind::array}};
  for (const auto& [name, value] : kKinds) {
    if (kind == name) return value;
  }
  return std::nullopt;
}

bool is_derived(ParamKind kind) {
  return kind == ParamKind::out_buffer || kind == ParamKind::out_handle ||
         kind == ParamKind::out_number || kind == ParamKind::user_data ||
         kind == ParamKind::error || kind == ParamKind::dst || kind == ParamKind::length;
}

// Returns nothing for a function that scripts cannot call.
std::optional<Function> read_function(const ManifestJson& json) {
  const auto result = result_of(json.at("returns").at("kind"));
  if (json.at("header") == "dllm/lua.h" || !result) return std::nullopt;
  Function function;
  function.name = json.at("name");
  function.result = *result;
  function.result_noun = json.at("returns").value("handle", "");
  function.result_element = element_of(json.at("returns").value("elem", ""));
  function.takes = json.value("takes", "");
  for (const ManifestJson& item : json.at("params")) {
    const auto kind = kind_of(item);
    if (!kind) return std::nullopt;
    Param param{item.at("name"),
                *kind,
                item.value("handle", ""),
                item.value("options", ""),
                element_of(item.value("elem", "")),
                -1,
                item.value("null", false),
                is_derived(*kind),
                item.value("const", false)};
    function.params.push_back(std::move(param));
  }
  for (size_t i = 0; i < function.params.size(); ++i) {
    const std::string length = json.at("params")[i].value("length", "");
    for (size_t j = 0; j < function.params.size() && !length.empty(); ++j) {
      if (function.params[j].name == length) function.params[i].length = static_cast<int>(j);
    }
    // The caller passes the size of an array of raw bytes.
    if (function.params[i].kind == ParamKind::dst && function.params[i].element == Element::byte) {
      function.params[static_cast<size_t>(function.params[i].length)].derived = false;
    }
  }
  function.address = reinterpret_cast<void (*)()>(dlsym(own_library(), function.name.c_str()));
  if (function.address == nullptr) {
    throw ScriptError(DLLM_INTERNAL, "the library has no symbol " + function.name);
  }
  return function;
}

Manifest read_manifest() {
  const ManifestJson json = ManifestJson::parse(embedded_file("manifest.json"));
  Manifest made;
  for (const ManifestJson& item : json.at("functions")) {
    if (auto function = read_function(item)) made.functions.push_back(std::move(*function));
  }
  for (const ManifestJson& item : json.at("constants"))
    made.constants.push_back({item.at("name"), item.at("value")});
  for (const ManifestJson& item : json.at("types")) made.nouns.push_back(item.get<std::string>());
  return made;
}

} // namespace

const Manifest& manifest() {
  static const Manifest instance = read_manifest();
  return instance;
}

int64_t element_size(Element element) {
  switch (element) {
  case Element::i64:
  case Element::f64: return 8;
  case Element::u8:
  case Element::byte: return 1;
  default: return 4;
  }
}

} // namespace dllm::lua
