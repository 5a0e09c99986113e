// The own versions of Lua's library functions give what Lua's give, on made-up arguments.

#include "lua/sandbox.h"

#include <gtest/gtest.h>

#include <lauxlib.h>
#include <lualib.h>

#include <random>
#include <regex>
#include <string>
#include <vector>

namespace dllm::lua {
namespace {

// A state with Lua's functions under `theirs.string` and `theirs.table`, the own ones in their
// places.
class Functions : public ::testing::Test {
protected:
  void SetUp() override {
    shared_.level = Level::full;
    L_ = lua_newstate(allocate, &shared_);
    luaL_openlibs(L_);
    run("theirs = {} for _, library in ipairs { 'string', 'table' } do theirs[library] = {} "
        "for name, f in pairs(_G[library]) do theirs[library][name] = f end end");
    open_budget(L_);
    open_text_functions(L_);
    open_table_functions(L_);
  }
  void TearDown() override { lua_close(L_); }

  void run(const std::string& code) {
    ASSERT_EQ(luaL_dostring(L_, code.c_str()), LUA_OK) << lua_tostring(L_, -1);
  }

  // All results, or the error's text without names of functions, numbers of arguments and
  // addresses.
  std::string results(const std::string& library, const std::string& function,
                      const std::string& arguments) {
    const std::string code =
        "local r = table.pack(pcall(" + library + "." + function + ", " + arguments +
        ")) for i = 1, r.n do r[i] = tostring(r[i]) end return theirs.table.concat(r, ' | ')";
    EXPECT_EQ(luaL_dostring(L_, code.c_str()), LUA_OK) << code << ": " << lua_tostring(L_, -1);
    const std::string text = lua_tostring(L_, -1);
    lua_settop(L_, 0);
    return std::regex_replace(text, std::regex(" #[0-9]| to '[^']*'|0x[0-9a-f]+"), "");
  }

  void same(const std::string& library, const std::string& function, const std::string& arguments) {
    EXPECT_EQ(results(library, function, arguments),
              results("theirs." + library, function, arguments))
        << library << "." << function << "(" << arguments << ")";
  }

  Shared shared_;
  lua_State* L_ = nullptr;
};

std::string lua_text(const std::string& text) {
  std::string made = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') made += '\\';
    made += c;
  }
  return made + "\"";
}

TEST_F(Functions, PatternsMatchAsLuas) {
  const std::vector<std::string> atoms{
      "a",    "b",   ".",    "%a",     "%d",   "%s", "%W",   "[ab]",   "[^a]", "[a-c%d]", "[]]",
      "[^]]", "(a)", "(b*)", "()",     "(.-)", "%1", "%b()", "%f[%w]", "$",    "^",       "%.",
      "%z",   "-",   "[a-]", "[%a-z]", "%",    "[",  "(",    ")",      "(a(b)"};
  const std::vector<std::string> suffixes{"", "", "", "*", "+", "-", "?"};
  run("function all(f) return function(...) local r = {} for a, b in f(...) do r[#r + 1] = "
      "tostring(a) .. tostring(b) end "
      "return theirs.table.concat(r, ',') end end string.all = all(string.gmatch) "
      "theirs.string.all = all(theirs.string.gmatch)");
  std::mt19937 random(7);
  const auto pick = [&](const std::vector<std::string>& list) {
    return list[random() % list.size()];
  };
  for (int i = 0; i < 3000; ++i) {
    std::string pattern = random() % 5 == 0 ? "^" : "", subject;
    for (size_t n = random() % 5; n > 0; --n) pattern += pick(atoms) + pick(suffixes);
    for (size_t n = random() % 12; n > 0; --n) subject += "ab(c)1 .]-"[random() % 10];
    const std::string both = lua_text(subject) + ", " + lua_text(pattern);
    const std::string from = std::to_string(static_cast<int>(random() % 9) - 4);
    same("string", "find", both + ", " + from);
    same("string", "match", both);
    same("string", "find", both + ", " + from + ", true");
    same("string", "gsub", both + ", \"<%0>\"");
    same("string", "gsub", both + ", function(...) return #table.pack(...) end, 2");
    same("string", "gsub", both + ", {a = 1, b = false}");
    same("string", "all", both);
  }
}

TEST_F(Functions, RepeatsAsLuas) {
  for (const char* arguments :
       {"'', 5", "'ab', 0", "'ab', -1", "'ab', 1", "'ab', 7", "'a', 70000", "'ab', 3, ','",
        "'', 4, 'xy'", "'ab', 1, 'x'", "('x'):rep(1000), 130, 'y'", "5, 3"}) {
    same("string", "rep", arguments);
  }
}

TEST_F(Functions, TablesChangeAsLuas) {
  run("function seen(f) return function(t, ...) local r = table.pack(f(t, ...)) local s = {} for i "
      "= 1, 12 do s[i] = tostring(t[i]) end "
      "return theirs.table.concat(s, ' '), table.unpack(r, 1, r.n) end end "
      "for _, name in ipairs { 'insert', 'remove', 'move', 'concat', 'unpack' } do local own, old "
      "= table[name], theirs.table[name] "
      "table['seen_' .. name] = seen(own) theirs.table['seen_' .. name] = seen(old) end");
  for (const char* t : {"{}", "{1}", "{1, 2, 3}", "{'a', 'b', 'c', 'd'}"}) {
    const std::string first = t;
    for (const char* rest :
         {", 9", ", 1, 9", ", 2, 9", ", 4, 9", ", 5, 9", ", 0, 9", ", -1, 9", ", 1, 2, 3", ""})
      same("table", "seen_insert", first + rest);
    for (const char* rest : {"", ", 0", ", 1", ", 2", ", 3", ", 4", ", 5", ", -1"})
      same("table", "seen_remove", first + rest);
    for (const char* rest : {", 1, 3, 2", ", 2, 3, 1", ", 1, 0, 5", ", 1, 4, 3", ", 1, 2, 1, {}",
                             ", 1, 1 << 62, math.maxinteger", ", 1, 3, 4"})
      same("table", "seen_move", first + rest);
    for (const char* rest : {"", ", '-'", ", '-', 2", ", '-', 2, 3", ", '', 3, 2", ", ',', 1, 9"})
      same("table", "seen_concat", first + rest);
    for (const char* rest : {"", ", 2", ", 2, 3", ", 0, 2", ", -1, 1", ", 3, 2", ", 1, 1 << 40"})
      same("table", "seen_unpack", first + rest);
  }
}

TEST_F(Functions, SortSorts) {
  run("for n = 0, 200 do local t, u = {}, {} for i = 1, n do t[i] = (i * 7919) % 211 u[i] = t[i] "
      "end "
      "table.sort(t) theirs.table.sort(u) for i = 1, n do assert(t[i] == u[i]) end "
      "table.sort(t, function(a, b) return a > b end) theirs.table.sort(u, function(a, b) return a "
      "> b end) "
      "for i = 1, n do assert(t[i] == u[i]) end end");
}

} // namespace
} // namespace dllm::lua
