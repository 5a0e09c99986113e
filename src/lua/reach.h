#pragma once
// What a level lets a script reach through the library: the one place where paths and native code are checked.
// safe: no path. files: paths below the host's roots. full: everything.

#include "lua/manifest.h"

#include "dllm/dllm.h"

#include <lua.h>

#include <string>
#include <string_view>

namespace dllm::lua {

// Is this parameter of a function a path? Texts are, unless their name says that they are a name.
bool is_path(const Param& param);
// How the text of an option is treated. A key of type str or list without choices has to be in one of the lists of
// reach.cpp; one that is in none is `unlisted` and refused below full when its value may be a path.
enum class OptionUse { plain, path, native, unlisted };
OptionUse option_use(const std::string& kind, const std::string& key);

// Raises permission_denied, naming the level, when a script may not call this function.
void check_function(lua_State* L, const Function& function);
// The path to hand to the library, resolved at level files; raises permission_denied, naming the level.
std::string check_path(lua_State* L, const std::string& where, const char* path);
// Below level full: raises for a path that is empty, and for what a script may not do with an engine.
void check_path_given(lua_State* L, const std::string& where);
void check_engine_value(lua_State* L, bool is_hosts, std::string_view key, int64_t value);
// Raises when options name a path, a plugin or an engine that the level does not allow.
void check_options(lua_State* L, const std::string& kind, const dllm_options* options);
// Real paths of the host's roots; throws ScriptError for one that is no folder.
std::vector<std::string> open_roots(const std::vector<std::string>& roots);

}  // namespace dllm::lua
