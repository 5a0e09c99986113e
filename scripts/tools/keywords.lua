-- The keys of abi/options.json for languages whose keywords are in one list: those of a kind and of all policies.
-- settings.lua is for languages that have a class for each policy.
local files = require "files"
local json = require "json"

local keywords = {}

-- Adds the words of `more` that `list` lacks.
local function join(list, more)
  local known = {}
  for _, word in ipairs(list) do known[word] = true end
  for _, word in ipairs(more) do
    if not known[word] then list[#list + 1] = word end
  end
end

-- A default in words: 0.9, true, auto; "" for an empty text or list.
local function default_of(key)
  local value = key.default
  if math.type(value) == "float" then return string.format("%.15g", value) end
  if type(value) == "table" then return table.concat(value, " ") end
  return tostring(value)
end

-- Adds the sentence of a key as the policy has it. Equal sentences share one entry.
local function add_sentence(to, key, policy)
  local text, default = key.doc, default_of(key)
  if default ~= "" then text = text .. " [" .. default .. "]" end
  for _, sentence in ipairs(to.sentences) do
    if sentence.text == text then
      sentence.policies[#sentence.policies + 1] = policy
      return
    end
  end
  to.sentences[#to.sentences + 1] = {text = text, policies = {policy}}
end

local function take(keys, key, policy)
  local made = keys[key.name]
  if not made then
    made = {name = key.name, json = key.json, types = {}, choices = {}, sentences = {}}
    keys[#keys + 1], keys[key.name] = made, made
  end
  if key.type ~= "str" then join(made.types, {key.elem and "list " .. key.elem or key.type}) end
  if key.type == "str" then
    made.free = made.free or not key.choices
    join(made.choices, key.choices or {})
  end
  add_sentence(made, key, policy)
end

-- The keys of a kind, for "request" and "decoder" with those that a policy adds.
local function keys_of(data, wanted)
  local keys = {}
  for _, kind in ipairs(data.kinds) do
    for _, key in ipairs(kind.kind == wanted and kind.keys or {}) do take(keys, key) end
  end
  local has_policies = wanted == "request" or wanted == "decoder"
  for _, policy in ipairs(has_policies and data.policies or {}) do
    for _, key in ipairs(policy.keys) do take(keys, key, policy.name) end
  end
  return keys
end

-- generate and infill take these as their first argument.
local texts = {prompt = true, messages = true, infill = true}
local classes = {
  {name = "EngineSettings", kind = "engine"},
  {name = "ModelSettings", kind = "model"},
  {name = "AdapterSettings", kind = "adapter"},
  {name = "GeneratorSettings", kind = "generator"},
  {name = "LoadSettings", above = "ModelSettings, GeneratorSettings"},
  {name = "RequestSettings", kind = "request", has_texts = false},
  {name = "AddSettings", kind = "request", has_texts = true, above = "RequestSettings"},
  {name = "QueueSettings", kind = "queue"},
  {name = "QueueLoadSettings", above = "ModelSettings, QueueSettings"},
  {name = "SubmissionSettings", kind = "submission", above = "AddSettings"},
  {name = "DecoderSettings", kind = "decoder"},
  {name = "SlotSettings", kind = "slot"},
  {name = "TrainerSettings", kind = "trainer"},
  {name = "HubSettings", kind = "hub"},
}

-- The classes of settings, a list of {name, above, keys}. `above` names the classes whose keys it has too, or is nil.
-- A key has
--
--     name, json   as in abi/options.json
--     types        list of bool, i64, f64, "list i64", "list str"; a name of two policies may have two types
--     choices      the texts that are allowed; with `free` any text is
--     sentences    list of {text, policies}: what the key does and its default, for these policies; no policies: for all
function keywords.classes(root)
  local data, list = json.decode(files.read(root .. "/abi/options.json")), {}
  for i, class in ipairs(classes) do
    local keys = {}
    for _, key in ipairs(keys_of(data, class.kind)) do
      if class.has_texts == nil or class.has_texts == (texts[key.name] == true) then keys[#keys + 1] = key end
    end
    list[i] = {name = class.name, above = class.above, keys = keys}
  end
  return list
end

-- The sentences of a key as one text: "bd3lm, sdar: Steps of a block. [0]".
function keywords.doc(key)
  local words = {}
  for i, sentence in ipairs(key.sentences) do
    local head = #sentence.policies > 0 and table.concat(sentence.policies, ", ") .. ": " or ""
    words[i] = head .. sentence.text
  end
  return table.concat(words, " ")
end

return keywords
