// Bytes become a Lua program, by a grammar of statements over the library, texts, tables,
// coroutines, patterns and JSON, and run at level safe with a small budget. Whatever it does it
// ends, with one of the statuses of a script; the state stays usable, and releasing it ends too.

#include "dllm/dllm.h"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

// Reads choices; after the end of the bytes every choice is the first, so that programs end.
class Choices {
public:
  Choices(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}
  bool empty() const { return at_ == end_; }
  size_t below(size_t count) { return empty() ? 0 : *at_++ % count; }
  template <size_t N> std::string pick(const char* const (&list)[N]) { return list[below(N)]; }

private:
  const uint8_t *at_, *end_;
};

class Program {
public:
  explicit Program(Choices choices) : choices_(choices) {}

  std::string text() {
    std::string code = "local a, b, c, d = {}, \"x\", 3, nil\n";
    for (int i = 0; i < 40 && !choices_.empty(); ++i) code += statement(0);
    return code + "return a, b\n";
  }

private:
  static constexpr int kDeepest = 4;

  std::string name() { return choices_.pick({"a", "b", "c", "d", "_G", "dllm"}); }

  std::string number() {
    return choices_.pick({"0", "1", "-1", "3", "7", "100", "1e3", "0.5", "1 << 20", "1 << 62",
                          "math.maxinteger", "math.mininteger", "0/0", "1/0", "-0.0"});
  }

  std::string quoted() {
    return choices_.pick({"\"\"", "\"x\"", "\"abcabc\"", "\"%a+\"", "\"(.-)%1\"", "\"[^%s]*\"",
                          "\"%b()\"", "\"%f[%w]\"", "\"((a*)*)b\"", "\"\\0\\255\"",
                          "\"[1,{\\\"a\\\":null}]\"", "\"[[[[\"", "\"return 1\"", "\"%99.99f\"",
                          "\"<s4i8z\"", "\"/etc/passwd\"", "(\"a\"):rep(100)",
                          "(\"ab\"):rep(10000)"});
  }

  std::string table(int depth) {
    switch (choices_.below(6)) {
    case 0: return "{}";
    case 1: return "{" + expression(depth) + ", " + expression(depth) + "}";
    case 2: return "{a = " + expression(depth) + ", [" + number() + "] = 1}";
    case 3:
      return "setmetatable({}, {__index = " + function(depth) + ", __len = function() return " +
             number() + " end})";
    case 4:
      return "setmetatable({}, {__gc = " + function(depth) + ", __close = " + function(depth) +
             "})";
    default:
      return "setmetatable({}, {__mode = \"k\", __lt = " + function(depth) +
             ", __tostring = " + function(depth) + "})";
    }
  }

  std::string function(int depth) {
    std::string body;
    for (size_t i = 0, count = choices_.below(3); i < count; ++i) body += statement(depth + 1);
    return "function(...) " + body + " return " +
           (depth < kDeepest ? expression(depth + 1) : "...") + " end";
  }

  std::string callee() {
    return choices_.pick({"string.rep",
                          "string.find",
                          "string.gsub",
                          "string.match",
                          "string.format",
                          "string.pack",
                          "string.unpack",
                          "string.byte",
                          "table.concat",
                          "table.insert",
                          "table.remove",
                          "table.move",
                          "table.sort",
                          "table.unpack",
                          "coroutine.wrap",
                          "coroutine.create",
                          "coroutine.resume",
                          "coroutine.close",
                          "coroutine.yield",
                          "pcall",
                          "xpcall",
                          "error",
                          "load",
                          "setmetatable",
                          "getmetatable",
                          "next",
                          "rawset",
                          "rawget",
                          "rawlen",
                          "select",
                          "tostring",
                          "tonumber",
                          "utf8.len",
                          "utf8.char",
                          "utf8.offset",
                          "math.random",
                          "dllm.json.encode",
                          "dllm.json.decode",
                          "dllm.batch",
                          "dllm.tensor",
                          "dllm.schedule",
                          "dllm.objective",
                          "dllm.dataset_from",
                          "dllm.train_tokenizer",
                          "dllm.loader",
                          "dllm.dataset",
                          "dllm.names",
                          "dllm.schema",
                          "dllm.options",
                          "dllm.new_model",
                          "dllm.decoder",
                          "dllm.trainer",
                          "dllm.checkpoint",
                          "require",
                          "print",
                          "os.date",
                          "os.time"});
  }

  std::string method() {
    return choices_.pick({"close",   "describe", "values", "set",    "array", "names", "eval",
                          "prepare", "loss",     "add",    "size",   "next",  "seek",  "batches",
                          "encode",  "decode",   "chat",   "save",   "step",  "run",   "start",
                          "ids",     "trace",    "rep",    "gmatch", "sub"});
  }

  std::string expression(int depth) {
    if (depth >= kDeepest) return choices_.below(2) == 0 ? number() : quoted();
    const auto more = [&] { return expression(depth + 1); };
    switch (choices_.below(12)) {
    case 0: return name();
    case 1: return number();
    case 2: return quoted();
    case 3: return table(depth + 1);
    case 4: return function(depth + 1);
    case 5: return callee() + "(" + more() + ", " + more() + ")";
    case 6: return callee() + "(" + more() + ", " + more() + ", " + more() + ", " + more() + ")";
    case 7: return "(" + more() + "):" + method() + "(" + more() + ")";
    case 8: return "(" + more() + " .. " + more() + ")";
    case 9:
      return "(" + more() + choices_.pick({" + ", " // ", " < ", " == ", " & ", " and ", " or "}) +
             more() + ")";
    case 10: return "#(" + more() + ")";
    default: return "(" + more() + ")[" + more() + "]";
    }
  }

  std::string statement(int depth) {
    if (depth >= kDeepest) return "a = " + number() + "\n";
    switch (choices_.below(8)) {
    case 0: return name() + " = " + expression(depth) + "\n";
    case 1:
      return "pcall(" + callee() + ", " + expression(depth) + ", " + expression(depth) + ", " +
             expression(depth) + ")\n";
    case 2: return "pcall(" + function(depth) + ")\n";
    case 3: return "for i = 1, " + number() + " do " + statement(depth + 1) + " end\n";
    case 4: return "while " + expression(depth) + " do " + statement(depth + 1) + " end\n";
    case 5: return "a = coroutine.wrap(" + function(depth) + ") pcall(a)\n";
    case 6:
      return "for k, v in pairs(type(a) == \"table\" and a or {}) do b = v " +
             statement(depth + 1) + " end\n";
    default: return "do local x <close> = " + table(depth) + " end\n";
    }
  }

  Choices choices_;
};

bool is_expected(dllm_status status) {
  return status >= DLLM_OK && (status <= DLLM_UNAUTHENTICATED || status == DLLM_SCRIPT_FAILED ||
                               status == DLLM_CALLBACK_FAILED);
}

dllm_status run(dllm_lua* lua, const std::string& code, dllm_buffer* out, dllm_error* err) {
  return dllm_lua_run_text(lua, "fuzz", code.data(), static_cast<int64_t>(code.size()), nullptr,
                           out, err);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string code = Program(Choices(data, size)).text();
  dllm_error* err = dllm_error_new();
  dllm_options* options = nullptr;
  dllm_lua* lua = nullptr;
  if (dllm_options_new("lua", &options, err) != DLLM_OK ||
      dllm_options_set_i64(options, "memory_limit", 16 << 20, err) != DLLM_OK ||
      dllm_options_set_i64(options, "step_limit", 100000, err) != DLLM_OK ||
      dllm_lua_new(options, &lua, err) != DLLM_OK) {
    std::abort();
  }
  dllm_buffer* out = dllm_buffer_new();
  const dllm_status status = run(lua, code, out, err);
  if (!is_expected(status) || status == DLLM_INTERNAL || status == DLLM_UNKNOWN) std::abort();
  // Globals may hold all the memory; else the language still works.
  const dllm_status after = run(lua, "return 1 + 1", out, err);
  const std::string json(static_cast<const char*>(dllm_buffer_data(out)),
                         static_cast<size_t>(dllm_buffer_size(out)));
  if (after != DLLM_RESOURCE_EXHAUSTED && (after != DLLM_OK || json != "[2]")) std::abort();
  dllm_lua_release(lua);
  dllm_buffer_release(out);
  dllm_options_release(options);
  dllm_error_release(err);
  return 0;
}
