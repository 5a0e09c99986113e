#include "lua/allowed.h"
#include "lua/sandbox.h"
#include "lua/state.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::lua {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int64_t kMostThreads = 64; // of an engine, below level full

// ---- below a root ----

bool is_below(const fs::path& path, const std::vector<std::string>& roots) {
  const std::string& text = path.native();
  return std::any_of(roots.begin(), roots.end(), [&](const std::string& root) {
    return text == root || root == "/" ||
           (text.size() > root.size() && text.compare(0, root.size(), root) == 0 &&
            text[root.size()] == '/');
  });
}

[[noreturn]] void refuse(lua_State* L, const std::string& what, const std::string& hint) {
  raise(L, "permission_denied", what, hint);
}

// Returns the real path of the existing part of a path, followed by the part that does not exist
// yet.
fs::path resolve(const fs::path& path, bool& dangling) {
  std::error_code error;
  fs::path there = fs::absolute(path, error).lexically_normal(), rest;
  if (!there.has_filename()) there = there.parent_path(); // a slash at the end
  for (; there.has_relative_path(); there = there.parent_path()) {
    const auto status = fs::symlink_status(there, error);
    if (fs::exists(status)) break;
    rest = rest.empty() ? there.filename() : there.filename() / rest;
  }
  const fs::path real = fs::canonical(there, error);
  dangling = static_cast<bool>(error); // a link to nothing, or no right to look
  return rest.empty() ? real : real / rest;
}

// Checks that no part of a checkpoint is read from outside of the roots. `record` is its
// trainer.json.
void check_parts(lua_State* L, const fs::path& record, const std::vector<std::string>& roots,
                 const std::string& where) {
  std::ifstream file(record);
  const Json json = Json::parse(file, nullptr, false);
  if (!json.is_object() || !json.contains("parts")) return;
  for (const Json& part : json["parts"]) {
    if (!part.is_object() || !part.contains("address")) continue;
    const std::string address = part["address"].is_string() ? part["address"] : "";
    bool dangling = false;
    const fs::path real = resolve(address, dangling);
    if (address.find("://") == std::string::npos && !dangling && is_below(real, roots)) continue;
    refuse(L, where + " refers to " + address + ", which is out of the roots",
           "the host may name its folder with option roots");
  }
}

// Checks that no link and no checkpoint inside a folder leads out of the roots.
void check_links(lua_State* L, const fs::path& folder, const std::vector<std::string>& roots,
                 const std::string& where) {
  constexpr int kMostEntries = 100000;
  std::error_code error;
  int count = 0;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (++count > kMostEntries)
      refuse(L, where + " has more than 100000 entries below it", "name a smaller folder");
    if (it->path().filename() == "trainer.json" && it->is_regular_file(error))
      check_parts(L, it->path(), roots, where);
    if (!it->is_symlink(error)) continue;
    const fs::path target = fs::canonical(it->path(), error);
    if (error || !is_below(target, roots)) {
      refuse(L, where + " holds the link " + it->path().native() + ", which leads out of the roots",
             "");
    }
  }
  if (error) refuse(L, where + ": its entries cannot be listed: " + error.message(), "");
}

bool is_empty(const Json& value) {
  return value.is_null() || (value.is_string() && value.get_ref<const std::string&>().empty()) ||
         (value.is_array() && value.empty());
}

// Returns the effective values. dllm_options_to_json cannot fail for a valid handle and buffer.
Json values_of(const dllm_options* options) {
  dllm_buffer* out = dllm_buffer_new();
  dllm_options_to_json(options, out, nullptr);
  const char* text = static_cast<const char*>(dllm_buffer_data(out));
  Json json = Json::parse(text, text + dllm_buffer_size(out), nullptr, false);
  dllm_buffer_release(out);
  return json;
}

Json defaults_of(const std::string& kind) {
  dllm_options* made = nullptr;
  if (dllm_options_new(kind.c_str(), &made, nullptr) != DLLM_OK) return Json::object();
  Json json = values_of(made);
  dllm_options_release(made);
  return json;
}

} // namespace

void check_function(lua_State* L, const Function& function) {
  const Shared& own = shared(L);
  const FunctionUse use = function_use(function.name);
  const bool allowed = own.level == Level::full || use == FunctionUse::every_level ||
                       (own.level == Level::files && use == FunctionUse::not_safe);
  if (allowed) return;
  refuse(L, std::string("level ") + level_name(own.level) + " does not allow " + function.name,
         "the host may choose level full");
}

std::string check_path(lua_State* L, const std::string& where, const char* path) {
  const Shared& own = shared(L);
  if (own.level == Level::full || path[0] == '\0') return path;
  const std::string what = where + " \"" + path + "\"";
  if (own.level == Level::safe) {
    refuse(L, "level safe reaches no files: " + what,
           "the host may choose level files, with roots, or level full");
  }
  if (std::string_view(path).find("://") != std::string_view::npos)
    refuse(L, "level files reaches no object stores: " + what, "the host may choose level full");
  for (const fs::path& part : fs::path(path)) {
    if (part == "..")
      refuse(L, "level files takes no \"..\" in a path: " + what, "write the path without it");
  }
  bool dangling = false;
  const fs::path real = resolve(path, dangling);
  if (dangling || !is_below(real, own.roots)) {
    refuse(L, "level files reaches the host's roots only: " + what,
           "the host names roots with option roots");
  }
  std::error_code ignored;
  if (fs::is_directory(real, ignored)) check_links(L, real, own.roots, what);
  return real.native();
}

namespace {

// Returns whether a text is a number for text::DatasetSpec too. Another word after '*' is a pattern
// of the shell there.
bool is_number(std::string_view text) {
  double value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  return read.ec == std::errc() && read.ptr == text.data() + text.size() && std::isfinite(value);
}

// Returns the length of the path in a part of the data: what is before its rows and its times.
size_t path_length(std::string_view part) {
  size_t length = part.size();
  const size_t star = part.rfind('*');
  if (star != std::string_view::npos && is_number(part.substr(star + 1))) length = star;
  const size_t open = part.substr(0, length).rfind('[');
  const bool has_rows = length > 0 && part[length - 1] == ']' && open != std::string_view::npos &&
                        part.substr(open, length - open).find(':') != std::string_view::npos;
  return has_rows ? open : length;
}

bool there_is(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

} // namespace

// A part is a path with its rows and times. A pattern of the shell could find a link out of the
// roots, and a word in brackets could be a path.
std::string check_data(lua_State* L, const std::string& where, const char* data) {
  if (shared(L).level != Level::files || there_is(data)) return check_path(L, where, data);
  const std::string_view all = data;
  std::string made;
  for (size_t begin = 0; begin <= all.size();) {
    const size_t end = std::min(all.find('+', begin), all.size());
    const std::string part(all.substr(begin, end - begin));
    const size_t length = there_is(part) ? part.size() : path_length(part);
    const std::string path = part.substr(0, length), rest = part.substr(length);
    const std::string what = where + " \"" + part + "\"";
    if (path.empty()) refuse(L, what + " has no path", "write PATH, PATH[A:B] or PATH*TIMES");
    if (!there_is(path) && path.find_first_of("*?[") != std::string::npos)
      refuse(L, "level files takes no pattern of paths: " + what, "name the files one by one");
    if (rest.find('/') != std::string::npos || rest.find("..") != std::string::npos)
      refuse(L, "level files takes no path in brackets: " + what, "name the folder before them");
    const std::string real = check_path(L, where, path.c_str());
    if (real.find_first_of("+*?[") != std::string::npos)
      refuse(L, "level files takes no part of data whose path has +, *, ? or [: " + what,
             "rename the file, or open it alone");
    made += (begin == 0 ? "" : "+") + real + rest;
    begin = end + 1;
  }
  return made;
}

void check_path_given(lua_State* L, const std::string& where) {
  if (shared(L).level != Level::full)
    refuse(L, where + " is an empty path", "name a file or folder");
}

void check_engine_value(lua_State* L, bool is_hosts, std::string_view key, int64_t value) {
  const Shared& own = shared(L);
  if (own.level == Level::full) return;
  const std::string level = std::string("level ") + level_name(own.level);
  if (is_hosts)
    refuse(L, level + " changes no engine of the host",
           "make an engine with dllm.engine, or ask the host");
  if (key == "threads" && value > kMostThreads) {
    refuse(L, level + " allows an engine 64 threads, not " + std::to_string(value),
           "the host may choose level full");
  }
}

namespace {

// Checks a path, or every folder of a list of NAME=FOLDER.
void check_paths(lua_State* L, const std::string& where, const Json& value) {
  if (!value.is_array()) {
    check_path(L, where, value.get<std::string>().c_str());
    return;
  }
  for (const Json& word : value) {
    const std::string text = word.get<std::string>();
    check_path(L, where, text.substr(text.find('=') + 1).c_str());
  }
}

} // namespace

void check_options(lua_State* L, const std::string& kind, const dllm_options* options) {
  const Shared& own = shared(L);
  if (own.level == Level::full || options == nullptr) return;
  const std::string level = std::string("level ") + level_name(own.level);
  const Json values = values_of(options), defaults = defaults_of(kind);
  if (kind == "engine" && values.value("threads", int64_t{0}) > kMostThreads) {
    refuse(L, level + " allows an engine 64 threads, not " + values["threads"].dump(),
           "the host may choose level full");
  }
  for (const auto& [key, value] : values.items()) {
    if (is_empty(value) || (defaults.contains(key) && defaults[key] == value)) continue;
    const std::string where = "option " + key + " of " + kind;
    switch (option_use(kind, key, value.is_number() || value.is_boolean())) {
    case OptionUse::path: check_paths(L, where, value); break;
    case OptionUse::default_:
      refuse(L, level + " allows " + where + " its default alone, not " + value.dump(),
             "it may load native code or reach files; the host may choose level full");
    case OptionUse::plain: break;
    }
  }
}

std::vector<std::string> open_roots(const std::vector<std::string>& roots) {
  std::vector<std::string> real;
  for (const std::string& root : roots) {
    std::error_code error;
    const fs::path path = fs::canonical(root, error);
    if (error || !fs::is_directory(path, error))
      throw ScriptError(DLLM_NOT_FOUND, "root \"" + root + "\" is not a folder",
                        "option roots names folders that exist");
    real.push_back(path.native());
  }
  return real;
}

} // namespace dllm::lua
