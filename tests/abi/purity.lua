-- The rules for signatures and comment blocks hold for every public function, and the checker that
-- says so refuses what it must.   purity.lua ROOT
local tap = require "tap"
local files = require "files"
local json = require "json"
local manifest = require "manifest"

local root = arg[1]

local data, complaints = manifest.build(manifest.read_headers(root))
tap.ok(#complaints == 0, "every public function obeys the rules", table.concat(complaints, "\n"))
tap.ok(manifest.encode(data) == files.read(root .. "/abi/manifest.json"),
       "abi/manifest.json matches the headers", "run the target abi-update and commit")
tap.ok(manifest.map(data) == files.read(root .. "/abi/dllm.map"),
       "abi/dllm.map matches the headers", "run the target abi-update and commit")
tap.ok(manifest.encode(json.decode(manifest.encode(data))) == manifest.encode(data),
       "the manifest survives reading and writing")
tap.ok(#data.functions > 100, #data.functions .. " functions")

-- One good function, bent in one way per case.
local good = {
  summary = "Makes a thing.",
  signature = "DLLM_API dllm_status dllm_thing_new(const char *name, " ..
            "const dllm_options *opts, dllm_task *task, dllm_thing **out, dllm_error *err);",
  params = " *   name   not NULL\n *   opts   NULL: defaults\n *   task   NULL, or looked at\n" ..
           " *   out    not NULL\n",
  tags = " * Returns  DLLM_OK\n * Owns     caller owns out\n * Threads  any\n * Since    1\n",
}

local function text_of(case)
  local function part(name) return case[name] or good[name] end
  local block = "/* " .. part("summary") .. "\n *\n" .. part("params") .. " *\n" .. part("tags") ..
                " */\n"
  if case.no_block then block = "" end
  return '#include "dllm/base.h"\nenum { DLLM_A = 1, DLLM_B = 2 };\n' .. (case.before or "") ..
         block .. part("signature") .. "\n"
end

-- What the checker says about a bent header; "" when it has nothing to say.
local function complaint_about(case)
  local ok, _, list = pcall(function()
    return manifest.build({{name = "dllm/thing.h", text = text_of(case)}})
  end)
  if not ok then return tostring(_) end
  return table.concat(list, "\n")
end

tap.ok(complaint_about({}) == "", "a good function is accepted", complaint_about({}))

-- A signature with these parameters, documented as it should be, so that only one thing is wrong.
local function with(params, names, result)
  local lines = {}
  for name in names:gmatch("%S+") do lines[#lines + 1] = " *   " .. name .. "   not NULL\n" end
  local head = "DLLM_API " .. (result or "dllm_status") .. " dllm_thing_do("
  return {signature = head .. params .. ");",
          params = table.concat(lines),
          tags = " * Returns  x\n * Owns     nothing\n * Threads  any\n * Since    1\n"}
end

local object, err = "const dllm_thing *thing, ", ", dllm_error *err"
local cases = {
  {"a struct by value", with(object .. "dllm_options opts" .. err, "thing opts"), "not allowed"},
  {"a struct pointer of others", with(object .. "struct tm *when" .. err, "thing when"), "allowed"},
  {"bool", with(object .. "bool on" .. err, "thing on"), "bool on is not allowed"},
  {"long", with(object .. "long n" .. err, "thing n"), "long n is not allowed"},
  {"unsigned", with(object .. "uint32_t n" .. err, "thing n"), "not allowed"},
  {"int", with(object .. "int n" .. err, "thing n"), "not allowed"},
  {"size_t", with(object .. "size_t n" .. err, "thing n"), "not allowed"},
  {"float by value", with(object .. "float x" .. err, "thing x"), "not allowed"},
  {"an enum", with(object .. "enum dllm_kind k" .. err, "thing k"), "not allowed"},
  {"varargs", with(object .. "const char *format, ...", "thing format"), "not allowed"},
  {"another callback", with(object .. "void (*fn)(void)" .. err, "thing fn"), "not allowed"},
  {"a pointer to pointers", with(object .. "const char **names" .. err, "thing names"), "allowed"},
  {"an array without a count", with(object .. "const int32_t *ids" .. err, "thing ids"),
   "no count"},
  {"room without a count", with(object .. "float *dst" .. err, "thing dst"), "no length"},
  {"an unsigned result", with("const dllm_thing *thing", "thing", "uint64_t"), "may not return"},
  {"a bool result", with("const dllm_thing *thing", "thing", "bool"), "may not return"},
  {"no error last", with("const dllm_thing *thing", "thing"), "dllm_error %*err last"},
  {"an error without a status", with("const dllm_thing *thing" .. err, "thing", "int64_t"),
   "does not return"},
  {"eight parameters", with(object .. "int64_t a, int64_t b, int64_t c, int64_t d, int64_t e, " ..
                            "int64_t f" .. err, "thing a b c d e f"), "7 at most"},
  {"options before inputs", with(object .. "const dllm_options *opts, int64_t n" .. err,
                                 "thing opts n"), "input n comes after opts"},
  {"the task before options", with(object .. "dllm_task *task, const dllm_options *opts" .. err,
                                   "thing task opts"), "opts comes after task"},
  {"an out before the task", with(object .. "int64_t *out, dllm_task *task" .. err,
                                  "thing out task"), "comes after out"},
  {"the object not first", with("int64_t n, " .. "const dllm_thing *thing" .. err, "n thing"),
   "must come first"},
  {"two outs, one without a name", with(object .. "int64_t *out, int64_t *out_more" .. err,
                                        "thing out out_more"), "needs a name"},
  {"a name in another style", {signature = good.signature:gsub("dllm_thing_new", "dllmThingNew")},
   "names are dllm_"},
  {"no comment block", {no_block = true}, "no comment block"},
  {"no summary", {summary = ""}, "summary"},
  {"a parameter without a sentence", {params = good.params:gsub(" %*   opts[^\n]*\n", "")},
   "parameter opts has no sentence"},
  {"a sentence without a parameter", {params = good.params .. " *   more   not NULL\n"},
   "describes more"},
  {"sentences in another order", {params = " *   opts   NULL: x\n *   name   not NULL\n" ..
    " *   task   NULL, or x\n *   out    not NULL\n"}, "out of order"},
  {"silence about NULL", {params = good.params:gsub("name   not NULL", "name   a name")},
   "meaning of NULL"},
  {"no Returns", {tags = good.tags:gsub(" %* Returns[^\n]*\n", "")}, "no line returns"},
  {"no Owns", {tags = good.tags:gsub(" %* Owns[^\n]*\n", "")}, "no line owns"},
  {"no Threads", {tags = good.tags:gsub(" %* Threads[^\n]*\n", "")}, "no line threads"},
  {"no Since", {tags = good.tags:gsub(" %* Since[^\n]*\n", "")}, "no line since"},
  {"other Threads", {tags = good.tags:gsub("any", "maybe")}, "Threads is any"},
  {"an out without an owner", {tags = good.tags:gsub("caller owns out", "nothing")}, "who gets out"},
  {"keeping what is no parameter", {tags = good.tags:gsub("owns out", "owns out, which keeps engine")},
   "names engine"},
  {"a const handle for one thread", {signature = with(object .. "int64_t n" .. err, "").signature,
    params = " *   thing   not NULL\n *   n   1\n",
    tags = " * Returns  x\n * Owns     nothing\n * Threads  owner\n * Since    1\n"},
   "Threads any"},
  {"a constant without a number", {before = "enum { DLLM_C };\n"}, "explicit number"},
  {"a struct definition", {before = "struct dllm_thing { int32_t x; };\n"}, "cannot read"},
  {"an inline function", {before = "static inline int32_t f(void) { return 1; }\n"}, "cannot read"},
  {"exported data", {before = "extern int32_t dllm_level;\n"}, "not a thing"},
  {"a typedef of a number", {before = "typedef uint32_t dllm_size;\n"}, "not a thing"},
}
for _, case in ipairs(cases) do
  local said = complaint_about(case[2])
  tap.ok(said ~= "" and said:find(case[3]), case[1] .. " is refused", "it said: " .. said)
end
tap.done()
