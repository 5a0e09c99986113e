-- Small stories from a grammar: a text to learn from, and a score that can be checked.
--   dllm run scripts/recipes/stories.lua --write stories.jsonl [--count 20000] [--seed 1]    (or .txt)
--   dllm run scripts/recipes/stories.lua --check stories.txt
--   dllm run scripts/recipes/stories.lua --score runs/quickstart [--count 16] [--length 96] [--steps 96] [--block_length 1] [--temperature 0.4]
--     [--policy ancestral]
-- Grammatical: share of the sentences that the grammar has. Consistent: those whose names, pronouns and things also agree
-- with the sentences before. Entropy: of the words of all samples together, in nats. Different: share of the stories that no
-- other sample repeats. Infilled: share of new stories with a gap of three tokens, decided all together, whose sentences are all
-- grammatical once it is filled.
local dllm = require "dllm"
local settings = { write = "", check = "", score = "", count = 0, length = 96, steps = 96, block_length = 1, seed = 1,
  temperature = 0.4, policy = "" }

local here = debug.getinfo(1, "S").source:match "^@(.*/)" or ""
local grammar = dofile(here .. "stories_grammar.lua") -- the words and sentences
local lists, rules, kinds, needs_friend = grammar.lists, grammar.rules, grammar.kinds, grammar.needs_friend
local female = {}
for name, text in pairs(lists) do
  lists[name] = {}
  for entry in text:gmatch "%S+" do table.insert(lists[name], (entry:gsub("_", " "))) end
end
for _, name in ipairs(lists.she) do female[name] = true end
lists.name = table.move(lists.he, 1, #lists.he, #lists.she + 1, { table.unpack(lists.she) })
local forms = { he = { "he", "she" }, his = { "his", "her" }, him = { "him", "her" }, child = { "boy", "girl" } }

-- What a symbol may be in a story, and what its choice binds: the name of a role ("hero") or its sex ("hero sex").
local function choices(symbol, story)
  local role, form = symbol:match "^(%l+) ?(%l*)$"
  if role == "hero" or role == "friend" or role == "thing" or role == "many" then
    if forms[form] then
      local name, sex = story[role], story[role .. " sex"]
      if name then sex = female[name] and 2 or 1 end
      return sex and { forms[form][sex] } or forms[form], not sex and role .. " sex" or nil
    end
    if story[role] and (form ~= "new" or story.writing and role ~= "many") then return { story[role] } end
    if story.strict and form ~= "new" then return {} end
    return lists[role == "thing" and "object" or role == "many" and role or "name"], role
  end
  return rules[symbol] or lists[symbol]
end
local function bind(story, key, value, index)
  local new = {}
  for k, v in pairs(story) do new[k] = v end
  new[key] = key:find " " and index or value
  local sex = story[key .. " sex"]
  return (not sex or sex == (female[value] and 2 or 1)) and new or nil
end

local function write(pattern, story)
  return (pattern:gsub("<([^>]+)>", function(symbol)
    if symbol == "a" then return end
    local list, key = choices(symbol, story)
    local index = math.random(#list)
    if key and story[key] == nil or symbol == "many new" then story[key] = key:find " " and index or list[index] end
    return write(list[index], story)
  end))
end
local function pretty(sentence)
  sentence = sentence:gsub("<a> ([aeiou])", "an %1"):gsub("<a>", "a"):gsub(" ([%.,!%?])", "%1"):gsub('" (.-) "', '"%1"')
  sentence = sentence:gsub("%a+", function(word) return (female[word] ~= nil or word == "i") and word:gsub("^%l", string.upper) or nil end)
  return (sentence:gsub("^(\"?)(%l)", function(quote, letter) return quote .. letter:upper() end))
end
for _, name in ipairs(lists.he) do female[name] = false end

local function new_story()
  local function any(list) return list[math.random(#list)] end
  local story = { writing = true, hero = any(lists.name), thing = any(lists.object) }
  repeat story.friend = any(lists.name) until story.friend ~= story.hero
  local plan = { "opening", "find", "middle" }
  for _ = 1, math.random(0, 2) do plan[#plan + 1] = "middle" end
  local rest = math.random(2) == 1 and { "ending" } or { "meeting", "together", "together", "farewell" }
  table.move(rest, 1, #rest, #plan + 1, plan)
  for i, kind in ipairs(plan) do plan[i] = pretty(write(any(rules[kind]), story)) end
  return table.concat(plan, " ")
end

-- Reads a pattern from the tokens at `at`: where it ends and the story after it, or nil.
local function read(pattern, tokens, at, story)
  for symbol in pattern:gsub("<(%l+) (%l+)>", "<%1_+%2>"):gmatch "%S+" do
    local name = symbol:match "^<(.+)>$"
    if name == "a" then
      local an = tostring(tokens[at + 1]):find "^[aeiou]"
      if tokens[at] ~= (an and "an" or "a") then return nil end
      at = at + 1
    elseif name then
      local list, key = choices((name:gsub("_%+", " ")), story)
      local found, after
      for index, entry in ipairs(list) do
        found, after = read(entry, tokens, at, story)
        if found and key then after = bind(after, key, entry, index) end
        if found and after then break end
      end
      if not (found and after) then return nil end
      at, story = found, after
    elseif tokens[at] ~= symbol then
      return nil
    else
      at = at + 1
    end
  end
  return at, story
end
local function read_sentence(tokens, at, story)
  for _, kind in ipairs(kinds) do
    for _, pattern in ipairs(rules[kind]) do
      if not (story.strict and needs_friend[kind] and not story.friend) then
        local after, next_story = read(pattern, tokens, at, kind == "opening" and { strict = story.strict } or story)
        if after then return after, next_story end
      end
    end
  end
end

local words = {} -- how often each word was checked
-- Counts of a story: whole sentences, those of the grammar, those that agree with the ones before. A sentence that the canvas
-- cuts is left out; one that the story's own end cuts (`ended`) is wrong.
local function check(text, total, ended)
  local tokens, at, story = {}, 1, { strict = true }
  for token in text:lower():gsub("%p", " %0 "):gmatch "%S+" do
    tokens[#tokens + 1] = token
    words[token] = (words[token] or 0) + 1
  end
  while at <= #tokens do
    local after = read_sentence(tokens, at, {})
    local agrees, next_story = read_sentence(tokens, at, story)
    if not after then
      after = at
      while tokens[after] and not tokens[after]:find "^[%.!%?]$" do after = after + 1 end
      if after > #tokens and not ended then break end
      after = after + 1
    else
      total.grammatical = total.grammatical + 1
      if agrees then total.consistent, story = total.consistent + 1, next_story end
    end
    total.sentences, at = total.sentences + 1, after
  end
  return total
end
-- The same of a canvas: stories with the end token between them, the last one perhaps cut.
local function check_all(text, mark, total)
  local at = 1
  while true do
    local first, last = text:find(mark, at, true)
    check(text:sub(at, (first or 0) - 1), total, first ~= nil)
    if not last then return total end
    at = last + 1
  end
end
local function entropy()
  local counts, all, sum = {}, 0, 0
  for _, n in pairs(words) do counts[#counts + 1], all = n, all + n end
  table.sort(counts) -- a sum in another order has other last digits
  for _, n in ipairs(counts) do sum = sum - n / all * math.log(n / all) end
  return sum
end
local function report(total, more)
  local out = { sentences = total.sentences, grammatical = total.grammatical / math.max(1, total.sentences),
    consistent = total.consistent / math.max(1, total.sentences), entropy = total.entropy or entropy() }
  for key, value in pairs(more or {}) do out[key] = value end
  print(dllm.json.encode(out))
end

local function infilled(model, tok)
  local decoder = dllm.decoder(model, { steps = settings.steps })
  local eos, mask, slots, right = tok:id "eos", model:get "mask_id", {}, 0
  math.randomseed(settings.seed + 1000) -- other stories than --write has by default
  for i = 1, settings.count do
    local ids = tok:encode(new_story())
    table.insert(ids, 1, eos)
    ids[#ids + 1] = eos
    local fixed, at = {}, math.random(2, #ids - 3)
    for k = 1, #ids do
      fixed[k] = (k < at or k > at + 2) and 1 or 0
      if fixed[k] == 0 then ids[k] = mask end
    end
    slots[i] = decoder:add(ids, fixed, { seed = settings.seed * 1000 + i })
  end
  decoder:run()
  for _, slot in ipairs(slots) do
    local found = check_all(tok:decode(decoder:ids(slot)), tok:decode { eos }, { sentences = 0, grammatical = 0, consistent = 0 })
    if found.grammatical == found.sentences then right = right + 1 end
  end
  return right / #slots
end

-- ---- what is asked ----
local USAGE = "dllm run scripts/recipes/stories.lua --write FILE | --check FILE | --score MODEL [--count N] [--seed N]"
for i = 1, arg and #arg or 0, 2 do
  local key = tostring(arg[i]):match "^%-%-(.+)$"
  if key == "help" then return print(USAGE) end
  assert(key and settings[key] ~= nil and arg[i + 1], "unknown argument " .. tostring(arg[i]) .. "; usage: " .. USAGE)
  settings[key] = tonumber(arg[i + 1]) or arg[i + 1]
end
math.randomseed(settings.seed)
local total = { sentences = 0, grammatical = 0, consistent = 0 }
if settings.write ~= "" then
  local file = assert(io.open(settings.write, "w"))
  local records = settings.write:find "%.jsonl$"
  for _ = 1, settings.count > 0 and settings.count or 20000 do
    local story = new_story()
    assert(file:write(records and dllm.json.encode { text = story } .. "\n" or story .. "\n\n"))
  end
  assert(file:close())
elseif settings.check ~= "" then
  for line in assert(io.open(settings.check)):lines() do check_all(line, "<|endoftext|>", total) end
  report(total)
elseif settings.score ~= "" then
  local model, tok = dllm.model(settings.score), dllm.tokenizer(settings.score) -- a run, with all parts of its model
  local options = { steps = settings.steps, block_length = settings.block_length, temperature = settings.temperature }
  if settings.policy ~= "" then options.policy = settings.policy end
  local decoder = dllm.decoder(model, options)
  local canvas, fixed, slots, texts, different = {}, {}, {}, {}, 0
  for i = 1, settings.length do canvas[i], fixed[i] = model:get "mask_id", 0 end
  canvas[1], fixed[1] = tok:id "eos", 1 -- behind the token that ends a story: a new one begins
  if settings.count == 0 then settings.count = 16 end
  for i = 1, settings.count do
    slots[i] = decoder:add(canvas, fixed, { seed = settings.seed * 1000 + i })
  end
  decoder:run()
  for _, slot in ipairs(slots) do
    local text = tok:decode(decoder:ids(slot))
    check_all(text, tok:decode { canvas[1] }, total)
    if not texts[text] then different = different + 1 end
    texts[text] = true
  end
  total.entropy = entropy() -- before the words of infilled stories
  report(total, { different = different / #slots, infilled = infilled(model, tok), first = tok:decode(decoder:ids(slots[1])) })
else
  print(USAGE)
end
