-- The rules of docs/style.md for one function; returns a list of complaints.
local kinds = require "kinds"
local rules = {}

-- Position of a parameter: object, inputs, opts, callback, task, outs, err.
local function class_of(p, index)
  if p.handle == "error" and p.name == "err" then return 7, "err" end
  if index == 1 then return 1, "object" end
  if p.kind == "out_handle" or p.kind == "out_number" or p.out or p.name:match("^dst") then
    return 6, "out"
  end
  if p.handle == "task" then return 5, "task" end
  if p.kind == "callback" or p.kind == "hook" or p.kind == "user_data" then return 4, "callback" end
  if p.handle == "options" then return 3, "opts" end
  return 2, "input"
end

local function check_order(fn, list, say)
  local last, last_name = 0, ""
  for i, p in ipairs(list) do
    local class, what = class_of(p, i)
    if class < last then say("%s %s comes after %s", what, p.name, last_name) end
    last, last_name = class, p.name
  end
  local noun = fn.name:match("^dllmx?_(%l+)")
  local first_is_noun = list[1] ~= nil and list[1].kind == "handle" and list[1].handle == noun
  for i, p in ipairs(list) do
    if i > 1 and not first_is_noun and p.kind == "handle" and p.handle == noun and not p.out and p.handle ~= "error" then
      say("the object %s must come first", p.name)
    end
  end
end

local function check_outs(list, say)
  local outs = {}
  for _, p in ipairs(list) do
    if p.kind == "out_handle" or p.kind == "out_number" or p.out then outs[#outs + 1] = p.name end
    if p.kind == "dst" and not p.length then say("%s has no length", p.name) end
    if p.kind == "array" and not p.length then say("%s has no count", p.name) end
  end
  if #outs > 1 then
    for _, name in ipairs(outs) do
      if name == "out" then say("one of several outs needs a name: out_<what>") end
    end
  end
end

local function check_error(fn, list, say)
  local last = list[#list]
  local has_err = last and last.handle == "error" and last.name == "err" and not last.const
  if fn.result == "dllm_status" and fn.name ~= "dllm_error_code" and not has_err then
    say("a function that can fail takes dllm_error *err last")
  elseif fn.result ~= "dllm_status" and has_err and fn.name ~= "dllm_error_release" then
    say("takes err but does not return dllm_status")
  end
end

local function check_sentences(fn, list, say)
  local documented = fn.block.params
  local at = 1
  for _, p in ipairs(list) do
    local optional = p.handle == "error" and p.name == "err"
    if documented[at] and documented[at].name == p.name then
      at = at + 1
      local pointer = p.c:match("%*") or p.kind == "callback" or p.kind == "hook"
      if pointer and p.kind ~= "length" and not p.doc:match("NULL") then
        say("the sentence of %s must name the meaning of NULL", p.name)
      end
    elseif not optional then
      say("parameter %s has no sentence, or its sentence is out of order", p.name)
    end
  end
  if documented[at] then
    say("the block describes %s, which is not a parameter", documented[at].name)
  end
end

local thread_words = {any = true, owner = true, callback = true}

local function check_block(fn, list, say)
  local block = fn.block
  if not block then return say("no comment block") end
  if not block.summary:match("^%u") or not block.summary:match("[.:,]") then
    say("the block needs a summary sentence")
  end
  for _, tag in ipairs {"returns", "owns", "threads", "since"} do
    if not block[tag] then return say("the block has no line %s", tag) end
  end
  if not thread_words[block.threads] then say("Threads is any, owner or callback") end
  if not block.since:match("^%d+$") then say("Since is a number") end
  if block.deprecated and not block.deprecated:match("^%d%d%d%d%-%d%d%-%d%d: use dllm_%l[%l%d_]*$") then
    say("Deprecated is a day and a successor: 2026-12-01: use dllm_x")
  end
  if not kinds.ownership(block.owns) then say("cannot read Owns: %s", block.owns) end
  check_sentences(fn, list, say)
  local first = list[1]
  if first and first.kind == "handle" and first.const and block.threads == "owner" then
    say("a const handle means Threads any")
  end
end

local function check_owner(fn, list, say)
  local owns = kinds.ownership(fn.block and fn.block.owns or "nothing") or {}
  local known = {result = true}
  for _, p in ipairs(list) do
    known[p.name] = true
    if p.kind == "out_handle" and owns.gives ~= p.name then
      say("Owns must say who gets %s", p.name)
    end
  end
  for _, name in ipairs {owns.gives or "result", owns.takes or "result", owns.keeper or "result",
                         table.unpack(owns.keeps or {})} do
    if not known[name] then say("Owns names %s, which is not a parameter", name) end
  end
  if fn.name:match("_release$") and owns.takes == nil then say("a release takes its handle") end
end

-- Complaints about fn; list: its manifest parameters, nil when a type is not allowed.
function rules.check(fn, list, bad)
  local complaints = {}
  local function say(format, ...)
    complaints[#complaints + 1] = fn.name .. ": " .. string.format(format, ...)
  end
  if not fn.name:match("^dllmx?_%l[%l%d_]*$") then say("names are dllm_<noun>_<verb>") end
  if not kinds.result(fn) then say("may not return %s", fn.result) end
  if not list then
    say("%s %s is not allowed in a signature", bad.type, bad.name)
    return complaints
  end
  if #list > 7 then say("%d parameters, 7 at most", #list) end
  check_order(fn, list, say)
  check_outs(list, say)
  check_error(fn, list, say)
  check_block(fn, list, say)
  check_owner(fn, list, say)
  return complaints
end

return rules
