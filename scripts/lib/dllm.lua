-- The friendly layer: objects with methods, options as tables, failures as errors {code, message, hint}.
-- Everything here is made on the raw functions of the C ABI; their contracts are in include/dllm. bindings/lua runs
-- the same file in other programs, also in LuaJIT, which lacks some of Lua 5.4.
local raw = package.loaded["dllm.raw"]
local random = require "dllm.random"

-- Kept: a script may replace these in their tables.
local assert, error, getmetatable, ipairs, next, pairs = assert, error, getmetatable, ipairs, next, pairs
local pcall, select, setmetatable, tostring, type = pcall, select, setmetatable, tostring, type
local encode, decode, format, packsize = raw.json.encode, raw.json.decode, string.format, string.packsize
local unpack_bytes, unpack_list, most = string.unpack, table.unpack or unpack, math.maxinteger or 2 ^ 53
local byte, concat, floor, sort = string.byte, table.concat, math.floor, table.sort

-- The comments with @ are types for editors with LuaLS; bindings/lua/dllm/settings.lua has those of settings.
---@class dllm
local dllm = { json = raw.json, random = random, version = raw.version() }

for name, value in pairs(raw) do
  if type(value) == "number" and name:match("^%u") then dllm[name] = value end
end

-- math.random repeats itself for a seed, on any machine. In a program of its own it stays as it is.
if raw.seed then
  math.random = random.generator(raw.seed)
  math.randomseed = function(seed) math.random = random.generator(seed or 0) end
end

local DTYPES = { f32 = raw.F32, f16 = raw.F16, bf16 = raw.BF16, f64 = raw.F64, i32 = raw.I32, i64 = raw.I64,
                 u8 = raw.U8, i8 = raw.I8, u32 = raw.U32 }
local FORMATS = { [raw.F32] = "f", [raw.F64] = "d", [raw.I32] = "i4", [raw.I64] = "i8", [raw.U8] = "B",
                  [raw.I8] = "b", [raw.U32] = "I4" }

---@class dllm.Error
---@field code string as "not_found"
---@field message string
---@field hint string what to try

-- Raises an error as the library's own are: {code, message, hint}.
local function fail(code, message, hint) raw.fail(code, message, hint or "") end

-- ---- names and values of the caller, where the library does not see them ----
-- How many bytes of two words differ.
local function distance(a, b)
  local row = {}
  for j = 0, #b do row[j] = j end
  for i = 1, #a do
    local above = { [0] = i }
    for j = 1, #b do
      local least = row[j - 1] + (byte(a, i) == byte(b, j) and 0 or 1)
      if row[j] + 1 < least then least = row[j] + 1 end
      if above[j - 1] + 1 < least then least = above[j - 1] + 1 end
      above[j] = least
    end
    row = above
  end
  return row[#b]
end

local LONGEST = 256 -- bytes of a name; a longer one is not a typing error

-- The hint for a name that is not in the list: the nearest one, as the library finds it. It differs in at most half of the
-- bytes; otherwise the hint has all names.
local function hint_for(name, list)
  local near
  if type(name) == "string" and #name <= LONGEST then
    local best = floor(#name / 2) + 1
    if best < 2 then best = 2 end
    for _, one in ipairs(list) do
      local differ = distance(name, one)
      if differ < best then best, near = differ, one end
    end
  end
  return near and "did you mean " .. near .. "?" or "the names are " .. concat(list, ", ")
end

-- A value in words: NaN, a string, a number.
local function shown(value)
  if value ~= value then return "NaN" end
  return value == nil and "nil" or "a " .. type(value)
end

-- Raises for options that are not a table, and for a name that is not in the list. nil: no options.
local function check_names(call, values, list)
  if values == nil then return end
  if type(values) ~= "table" then
    fail("invalid_argument", format("the options of %s are a table, not %s", call, shown(values)))
  end
  for name in pairs(values) do
    local known = false
    for _, one in ipairs(list) do known = known or one == name end
    if not known then
      fail("not_found", format('there is no option named "%s" of %s', tostring(name), call), hint_for(name, list))
    end
  end
end

-- Raises for a value that is not a number, or NaN. what: a sentence about the value, without its end.
local function check_number(value, what)
  if type(value) == "number" and value == value then return end
  fail("invalid_argument", format("%s, not %s", what, shown(value)))
end

-- The package in bindings/lua has calls of its own that check names.
raw.check_names, raw.check_number = check_names, check_number

-- The constant of a type of elements.
local DTYPE_NAMES = { "f32", "f16", "bf16", "f64", "i32", "i64", "u8", "i8", "u32" }
local function dtype_of(name)
  if DTYPES[name] then return DTYPES[name] end
  if type(name) ~= "string" then fail("invalid_argument", "a dtype is a string such as f32, not " .. shown(name)) end
  fail("not_found", format('there is no dtype named "%s"', name), hint_for(name, DTYPE_NAMES))
end

-- A table of options becomes an object of the kind a name has: "objective:mdlm".
local function options(kind, values)
  if values == nil or type(values) ~= "table" then return values end
  local made = raw.options_new(kind)
  raw.options_set_json(made, encode(values))
  return made
end
dllm.options = options

-- { "name", "other" } of a registry kind: engine family objective options policy schedule sink.
function dllm.names(kind)
  local names = {}
  for i = 0, most do
    local name = raw.registry_name(kind, i)
    if name == nil then return names end
    names[#names + 1] = name
  end
end

function dllm.schema(kind) return decode(raw.options_schema(kind)) end

-- ---- engine ----
---@class dllm.Engine
local engine = raw.class_engine
---@param values? dllm.EngineSettings
---@return dllm.Engine
function dllm.engine(values) return raw.engine_new(values) end
function engine:describe() return decode(raw.engine_describe(self)) end
function engine:get(key) return raw.engine_i64(self, key) end
function engine:set(key, value) raw.engine_set_i64(self, key, value) end

local shared_engine
local function default_engine()
  shared_engine = shared_engine or dllm.engine()
  return shared_engine
end

-- ---- tensor and batch ----
local tensor = raw.class_tensor
function tensor:dims()
  local dims = {}
  for axis = 0, raw.tensor_rank(self) - 1 do dims[axis + 1] = raw.tensor_dim(self, axis) end
  return dims
end
function tensor:count()
  local count = 1
  for _, extent in ipairs(self:dims()) do count = count * extent end
  return count
end
-- A flat list of numbers, row-major.
function tensor:values()
  local dtype = raw.tensor_dtype(self)
  if dtype == raw.F16 or dtype == raw.BF16 then dtype = raw.F32 end
  if raw.tensor_list then return raw.tensor_list(self, dtype, tensor.count(self)) end
  local packed, count = "<" .. FORMATS[dtype], tensor.count(self)
  local bytes = raw.tensor_read(self, dtype, count * packsize(packed))
  local values, at = {}, 1
  for i = 1, count do values[i], at = unpack_bytes(packed, bytes, at) end
  return values
end
function dllm.tensor(dtype, dims, values) return raw.tensor_new(dtype_of(dtype), dims, values) end

local batch = raw.class_batch
-- dllm.batch { ids = {"i32", {2, 8}, {...}} } or an empty one to fill with set().
function dllm.batch(arrays)
  local made = raw.batch_new()
  for name, array in pairs(arrays or {}) do
    if type(array) ~= "table" then fail("invalid_argument", "an array of dllm.batch is a table, not " .. shown(array)) end
    for key in pairs(array) do
      if key ~= 1 and key ~= 2 and key ~= 3 then
        fail("not_found", format('there is no "%s" in an array of dllm.batch', tostring(key)), "write {dtype, dims, values}")
      end
    end
    made:set(name, unpack_list(array, 1, 3))
  end
  return made
end
-- values: a flat list, row-major, or a string of their bytes.
function batch:set(name, dtype, dims, values)
  raw.batch_set(self, name, dtype_of(dtype), dims, values)
  return self
end
function batch:array(name) return raw.batch_array(self, name) end
function batch:values(name) return self:array(name):values() end
function batch:dims(name) return self:array(name):dims() end
function batch:names()
  local names = {}
  for i = 0, raw.batch_count(self) - 1 do names[i + 1] = raw.batch_name(self, i) end
  return names
end

-- ---- tokenizer, data ----
---@class dllm.Tokenizer
local tokenizer = raw.class_tokenizer
---@param path string tokenizer.json, a folder that has one, a run or a GGUF file
---@return dllm.Tokenizer
function dllm.tokenizer(path, values) return raw.tokenizer_load_task(path, values) end
function dllm.train_tokenizer(data, values) return raw.tokenizer_train(data, values) end
function tokenizer:encode(text) return raw.tokenizer_encode_task(self, text):values("ids") end
function tokenizer:decode(ids) return raw.tokenizer_decode(self, ids) end
function tokenizer:id(name) return raw.tokenizer_id(self, name) end
-- A conversation by the tokenizer's chat template: flat lists ids and keep (0 for text of the assistant).
-- values: options of kind chat; messages: {{role = "user", content = "Hi"}, ...}
function tokenizer:chat(messages, values)
  local row = raw.tokenizer_chat_task(self, encode(messages), values)
  return row:values("ids"), row:values("keep")
end
function tokenizer:save(path) raw.tokenizer_save(self, path) end
function tokenizer:size() return raw.tokenizer_size(self) end

-- The text of a canvas while it is decided: options begin, prompt, end_tokens, stop, stop_texts, stop_pattern.
local answer = raw.class_answer
local ENDS = { [raw.ANSWER_FULL] = "full", [raw.ANSWER_END_TOKEN] = "end_token", [raw.ANSWER_STOP_TEXT] = "stop_text" }
function dllm.answer(tok, values) return raw.answer_new(tok, values) end
-- The canvas now, as of decoder:ids and decoder:states. Returns nil, or why the answer is over: "full", "end_token",
-- "stop_text".
function answer:update(ids, states) return ENDS[raw.answer_update(self, ids, states)] end
function answer:text() return raw.answer_text(self) end
-- The final text that is new since the last call.
function answer:next() return raw.answer_next(self) end
-- One text per position.
function answer:cells()
  local all, ends = raw.answer_cells(self)
  local cells, begin = {}, 1
  for i, last in ipairs(ends) do
    cells[i] = all:sub(begin, last)
    begin = last + 1
  end
  return cells
end

local dataset = raw.class_dataset
-- A file or folder; tok nil: raw text.
function dllm.dataset(path, tok, values) return raw.dataset_open(path, tok, values) end
-- Rows from memory: {"text", "more text"} or tables as in JSON lines.
function dllm.dataset_from(rows, tok, values)
  local made = raw.dataset_new(tok, values)
  for _, row in ipairs(rows) do made:add(row) end
  return made
end
function dataset:add(row)
  raw.dataset_add(self, encode(type(row) == "string" and { text = row } or row))
end
function dataset:size() return raw.dataset_size(self) end
-- Appends the trajectories of the rows that the file lacks; returns their number. teacher nil: left_to_right.
function dataset:extract_trajectories(teacher, path, values)
  return raw.dataset_extract_trajectories(self, teacher, path, values)
end

local loader = raw.class_loader
function dllm.loader(data, values) return raw.loader_new(data, values) end
-- The next batch, or nil at the end of the data.
function loader:next()
  local ok, result = pcall(raw.loader_next, self)
  if ok then return result end
  if result.code == "out_of_range" then return nil, result.code end
  error(result, 0)
end
-- Writes what a teacher computes from the rows of one epoch to a folder; returns the number of new chunks.
function loader:write_anchors(teacher, path, values) return raw.loader_write_anchors(self, teacher, path, values) end
function loader:batches() return function() return (self:next()) end end
function loader:position() return raw.loader_position(self) end
function loader:seek(position) raw.loader_seek(self, position) end

-- ---- model ----
---@class dllm.Model
local model = raw.class_model
---@param path string a model folder, a GGUF file, a run, a checkpoint or the name of a model in the cache
---@param values? dllm.ModelSettings
---@param on? dllm.Engine nil: an engine that all models share
---@return dllm.Model
function dllm.model(path, values, on) return raw.model_load(on or default_engine(), path, values) end
-- config: a table as config.json has it.
---@param config table
---@param values? dllm.ModelSettings
---@param on? dllm.Engine
---@return dllm.Model
function dllm.new_model(config, values, on)
  return raw.model_new(on or default_engine(), encode(config), values)
end
function model:save(path, values) raw.model_save(self, path, values) end
-- Every save writes the tokenizer too.
function model:set_tokenizer(tok) raw.model_set_tokenizer(self, tok) end
-- LoRA adapters (dllm/adapter.h). values: options of kind adapter; name: nil for "default". A merge without a name
-- merges every adapter.
---@param name? string
---@param values? dllm.AdapterSettings
function model:add_adapter(name, values) raw.model_add_adapter(self, name or "default", values) end
function model:load_adapter(path, name) raw.model_load_adapter(self, path, name or "default") end
function model:save_adapter(path, name) raw.model_save_adapter(self, path, name or "default") end
function model:merge_adapter(name) raw.model_merge_adapter(self, name) end
function model:remove_adapter(name) raw.model_remove_adapter(self, name or "default") end
-- Adds the network of another model of the engine as a part that losses can read. name: nil for "teacher".
---@param other dllm.Model
---@param name? string
function model:add_network(other, name) raw.model_add_network(self, other, name or "teacher") end
---@param name? string
function model:remove_network(name) raw.model_remove_network(self, name or "teacher") end
---@param scale number 0: the adapter is off
---@param name? string
function model:set_adapter_scale(scale, name)
  check_number(scale, "set_adapter_scale takes the scale, then the name: the scale is a number")
  raw.model_set_adapter_scale(self, name or "default", scale)
end
function model:adapters() return decode(raw.model_adapters(self)) end
function model:config() return decode(raw.model_config(self)) end
function model:describe() return decode(raw.model_describe(self)) end
function model:get(key) return raw.model_i64(self, key) end
function model:version() return raw.model_version(self) end
--- Runs the model once. logits[i] predicts token i, also with shift 1. With shift = 0 it comes from the state of token i.
function model:forward(arrays, values) return raw.model_forward(self, arrays, values) end
function model:param(name) return raw.model_param(self, name) end
function model:set_param(name, value) raw.model_set_param(self, name, value) end
function model:params()
  local names = {}
  for i = 0, raw.model_param_count(self) - 1 do names[i + 1] = raw.model_param_name(self, i) end
  return names
end

-- ---- noise ----
local schedule = raw.class_schedule
-- A name of the registry, a function alpha(t) that is sampled into a table, or {t = , alpha = , dalpha = , weight = }.
-- values: options of the schedule of that name; for a function {points = }.
function dllm.schedule(what, values)
  if type(what) == "string" then return raw.schedule_new(what, options("schedule:" .. what, values)) end
  if type(what) == "table" then
    check_names("dllm.schedule", what, { "t", "alpha", "dalpha", "weight" })
    check_names("dllm.schedule of a table", values, {})
    return raw.schedule_table(what.t, what.alpha, what.dalpha, what.weight)
  end
  if type(what) ~= "function" then
    fail("invalid_argument", "a schedule is a name, a function of t or a table of points, not " .. shown(what))
  end
  check_names("dllm.schedule", values, { "points" })
  local points = values and values.points or 1001
  if type(points) ~= "number" or points < 2 or points % 1 ~= 0 then
    fail("invalid_argument", format("points is a whole number from 2 on, not %s", tostring(points)))
  end
  local t, alpha = {}, {}
  for i = 1, points do
    t[i] = (i - 1) / (points - 1)
    alpha[i] = what(t[i])
    if type(alpha[i]) ~= "number" then
      fail("invalid_argument", format("a schedule function gives a number, not %s (at t = %g)", type(alpha[i]), t[i]))
    end
  end
  if not (alpha[points] < alpha[1]) then
    fail("invalid_argument", format("alpha must fall: it is %g at t = 0 and %g at t = 1", alpha[1], alpha[points]),
         "alpha(t) is the part that stays at time t: 1 at t = 0, 0 at t = 1")
  end
  return raw.schedule_table(t, alpha)
end
-- Replaces a schedule that is a function of t or an object by its numbers, which options hold.
local function with_schedule(values)
  local own = type(values) == "table" and values.schedule or nil
  if own == nil or type(own) == "string" then return values end
  if type(own) == "function" then own = dllm.schedule(own) end
  local times, made = {}, {}
  for i = 0, 1000 do times[i + 1] = i / 1000 end
  for key, value in pairs(values) do made[key] = value end
  made.schedule, made.schedule_alphas = nil, (own:eval(times))
  return made
end
-- alpha, dalpha, weight: lists for a list of times.
function schedule:eval(times) return raw.schedule_eval(self, times) end
function schedule:alpha(t) return (raw.schedule_eval(self, { t }))[1] end

local objective = raw.class_objective
function dllm.objective(name, values, with_schedule)
  return raw.objective_new(name, with_schedule, options("objective:" .. name, values))
end
-- on: the model whose mask token, shift and vocabulary count; nil: the objective's own options.
function objective:prepare(rows, seed, step, on)
  return raw.objective_prepare(self, on, rows, seed or 0, step or 0)
end
function objective:loss(on, rows, seed) return raw.objective_loss(self, on, rows, seed or 0) end
function objective:row_losses(on, rows, seed) return raw.objective_row_losses(self, on, rows, seed or 0) end

-- ---- trainer ----
---@class dllm.Trainer
local trainer = raw.class_trainer
---@param on dllm.Model
---@param values? dllm.TrainerSettings
---@return dllm.Trainer
function dllm.trainer(on, what, values) return raw.trainer_new(on, what, values) end
function trainer:step(rows) return raw.trainer_step(self, rows) end
function trainer:accumulate(rows) raw.trainer_accumulate(self, rows) end
function trainer:apply() return raw.trainer_apply(self) end
function trainer:run(from, steps, fn) raw.trainer_run(self, from, steps, fn) end
function trainer:eval(from, max_batches) return raw.trainer_eval(self, from, max_batches or 8) end
function trainer:metric(key) return raw.trainer_metric(self, key) end
function trainer:describe() return decode(raw.trainer_describe(self)) end
function trainer:set(key, value) raw.trainer_set_f64(self, key, value) end
function trainer:add_sink(kind, target, values) raw.trainer_add_sink(self, kind, target or "", values) end
function trainer:model(role) return raw.trainer_model(self, role or "live") end
-- script_state: any table, handed back by restore.
function trainer:save(root, from, values)
  if type(values) == "table" and type(values.script_state) == "table" then
    local made = {}
    for key, value in pairs(values) do made[key] = value end
    made.script_state, values = encode(values.script_state), made
  end
  return raw.checkpoint_save(self, from, root, values)
end
function trainer:restore(dir, from) raw.checkpoint_restore(self, from, dir) end

-- The folder of a run's latest checkpoint, or nil.
function dllm.latest_checkpoint(root)
  local ok, result = pcall(raw.checkpoint_latest_task, root)
  if ok then return result end
  if result.code == "not_found" then return nil end
  error(result, 0)
end

-- ---- decoder ----
-- The kind of options of a noun; a policy, where one is given, has options of its own.
local function kind_of(noun, values)
  local policy = type(values) == "table" and values.policy
  if not policy or (noun == "request" and policy == "auto") then return noun end
  if type(policy) ~= "string" then fail("invalid_argument", "a policy is a name, not " .. shown(policy)) end
  return noun .. ":" .. policy
end
---@class dllm.Decoder
local decoder = raw.class_decoder
---@param on dllm.Model
---@param values? dllm.DecoderSettings
---@return dllm.Decoder
function dllm.decoder(on, values)
  return raw.decoder_new(on, options(kind_of("decoder", values), with_schedule(values)))
end
function decoder:start(prompt, seed) raw.decoder_start(self, prompt, seed or 0) end
-- canvas: ids; fixed: list of 0 and 1, or nil (all given, gen_length open positions follow).
---@param canvas integer[]
---@param fixed? integer[]
---@param values? dllm.SlotSettings
---@return integer slot
function decoder:add(canvas, fixed, values) return raw.decoder_add(self, canvas, fixed, values) end
function decoder:remove(slot) raw.decoder_remove(self, slot) end
function decoder:step() return raw.decoder_step(self) end
-- Runs steps for this many milliseconds, possibly to the middle of a step; returns as step.
function decoder:step_for(milliseconds, fn) return raw.decoder_step_for(self, milliseconds, fn) end
-- fn(event), between steps: event.kind ("decode_step" "block") and the keys of dllm/event.h.
function decoder:run(fn) raw.decoder_run(self, fn) end
function decoder:ids(slot) return raw.decoder_ids(self, slot or 0) end
function decoder:states(slot) return raw.decoder_states(self, slot or 0) end
function decoder:confidence(slot) return raw.decoder_confidence(self, slot or 0) end
function decoder:metric(key, slot) return raw.decoder_metric(self, slot or -1, key) end
-- JSON lines; the decoder is made with trace = true.
function decoder:trace(slot) return raw.decoder_trace(self, slot or 0) end
-- A step in halves: predict, then statistics(slot) = { positions, token, probability, entropy, ... } and
-- commit(slot, positions, ids) for every slot.
function decoder:predict() raw.decoder_predict(self) end
function decoder:statistics(slot)
  local found = raw.decoder_statistics(self, slot or 0)
  local lists = {}
  for _, name in ipairs(found:names()) do lists[name] = found:values(name) end
  return lists
end
function decoder:commit(slot, positions, ids) raw.decoder_commit(self, slot, positions, ids) end
function decoder:describe() return decode(raw.decoder_describe(self)) end

-- ---- generator: text in, text out ----
---@class dllm.Generator
local generator = raw.class_generator
---@class dllm.Message
---@field role string
---@field content string
---@alias dllm.Prompt string|dllm.Message[]

-- The values that are options of a kind, and the others.
local function divided(values, kind)
  local own, others, keys = {}, {}, {}
  for _, key in ipairs(dllm.schema(kind).keys) do keys[key.name] = true end
  for name, value in pairs(values or {}) do (keys[name] and own or others)[name] = value end
  return own, others
end
-- Raises for a setting that dllm.load does not have, with the nearest name of one of its kinds or all its names.
local function check_load(values)
  if values == nil then return end
  if type(values) ~= "table" then
    fail("invalid_argument", "the settings of dllm.load are a table, not " .. shown(values))
  end
  local known, list = {}, {}
  for _, kind in ipairs { "generator", "model" } do
    for _, key in ipairs(dllm.schema(kind).keys) do known[key.name], list[#list + 1] = true, key.name end
  end
  sort(list)
  for name in pairs(values) do
    if not known[name] then
      local hint = name == "engine" and "settings of the engine are the third argument" or hint_for(name, list)
      fail("not_found", format('there is no option named "%s" of kind model or generator', tostring(name)), hint)
    end
  end
end
-- A model with its tokenizer: dllm.load("model"):generate("Once upon a time", { length = 64 }).text
-- values: options of the kinds generator and model; on: an engine, or the options of a new one.
---@param path string a model folder, a GGUF file, a run, a checkpoint or the name of a model in the cache
---@param values? dllm.LoadSettings
---@param on? dllm.Engine|dllm.EngineSettings nil: an engine that all models share
---@return dllm.Generator
function dllm.load(path, values, on)
  check_load(values)
  local own, of_model = divided(values, "generator")
  if on == nil then on = default_engine() elseif getmetatable(on) == nil then on = dllm.engine(on) end
  return raw.generator_load(path, on, of_model, own)
end
---@param on dllm.Model
---@param tok dllm.Tokenizer
---@param values? dllm.GeneratorSettings
---@return dllm.Generator
function dllm.generator(on, tok, values) return raw.generator_new(on, tok, values) end
-- values: options of kind request, with prompt, messages or infill. Returns the number of the request.
---@param values dllm.AddSettings
---@return integer request
function generator:add(values)
  return raw.generator_add(self, options(kind_of("request", values), with_schedule(values)))
end
function generator:remove(request) raw.generator_remove(self, request) end
-- One denoising step of every open request; returns how many are open.
function generator:step() return raw.generator_step(self) end
-- fn(event), between steps: event.kind ("text" "answer") and the keys of dllm/event.h.
function generator:run(fn) raw.generator_run(self, fn) end
-- part: completion, text, next or canvas.
function generator:text(request, part) return raw.generator_text(self, request, part or "completion") end
function generator:describe(request) return decode(raw.generator_describe(self, request or -1)) end
function generator:decoder() return raw.generator_decoder(self) end
function generator:model() return raw.generator_model(self) end
function generator:tokenizer() return raw.generator_tokenizer(self) end

-- The values with the text of the request.
local function request_of(key, given, values)
  if values ~= nil and type(values) ~= "table" then
    fail("invalid_argument", "the settings of a request are a table, not " .. shown(values))
  end
  local request = {}
  for name, value in pairs(values or {}) do request[name] = value end
  for _, name in ipairs { "prompt", "messages", "infill" } do
    if request[name] ~= nil then
      fail("invalid_argument", format("the text is the first argument here, not the option %s", name))
    end
  end
  request[key] = given
  return request
end
local function prompt_of(prompt, values)
  if type(prompt) ~= "string" and type(prompt) ~= "table" then
    fail("invalid_argument", format("a prompt is a text or a list of messages, not a %s", type(prompt)))
  end
  return request_of(type(prompt) == "table" and "messages" or "prompt", prompt, values)
end

-- The table of describe, with text as the answer alone and whole as the prompt and the answer; tostring gives text.
-- Raises the error of a request that failed.
---@class dllm.Generation
---@field text string the answer; of a text with holes: the whole text
---@field whole string the prompt and the answer
---@field finish "full"|"end_token"|"stop_text"|"incomplete"
---@field holes string[] the text in each hole of an infill
---@field prompt_tokens integer
---@field completion_tokens integer
---@field steps integer denoising steps
---@field nfe integer forward passes of the model
---@field ids integer[] a token id for each position, with the prompt
---@field confidence number[] a probability for each position, 1 for a given one
---@field policy string
---@field seed integer
local generation = { __tostring = function(made) return made.text end }
local function generation_of(self, number)
  local text, made = self:text(number), self:describe(number)
  made.text, made.whole, made.completion = text, made.text, nil
  return setmetatable(made, generation)
end

-- Calls fn and removes the requests of a list, also when fn raises.
local function then_remove(self, numbers, fn)
  local ok, result = pcall(fn)
  for _, number in pairs(numbers) do self:remove(number) end
  if not ok then error(result, 0) end
  return result
end

-- Decodes one request and removes it. fn(text), where it is given, gets every piece of final text.
local function answer_of(self, request, fn)
  local number = self:add(request)
  local show = fn and function(event)
    if event.kind == "text" and event.request == number and event.text ~= "" then fn(event.text) end
  end
  return then_remove(self, { number }, function()
    self:run(show)
    return generation_of(self, number)
  end)
end
-- prompt: a text that the answer continues, or a list of messages {{role = "user", content = "Hi"}, ...}.
---@param prompt dllm.Prompt
---@param values? dllm.RequestSettings
---@param fn? fun(text: string) gets every piece of final text
---@return dllm.Generation
function generator:generate(prompt, values, fn) return answer_of(self, prompt_of(prompt, values), fn) end
-- text: <mask:N> is N open tokens, <mask> is one.
---@param text string
---@param values? dllm.RequestSettings
---@param fn? fun(text: string) gets every piece of final text
---@return dllm.Generation
function generator:infill(text, values, fn)
  if type(text) ~= "string" then
    fail("invalid_argument", format("infill takes a text with holes, not a %s", type(text)))
  end
  return answer_of(self, request_of("infill", text, values), fn)
end

-- for piece in g:stream("Hi") do: one piece for each step, {text = new final text, canvas = all of it with <mask:N> for
-- open positions, open =, step =}. stream.generation is the answer after the last piece. Leaving the loop removes the
-- request; LuaJIT needs stream:close() for that.
---@class dllm.Piece
---@field text string final text that is new
---@field canvas string the whole text, with <mask:N> for open positions
---@field open integer open positions
---@field step integer steps so far
---@class dllm.Stream
---@field generation? dllm.Generation the answer after the last piece
---@operator call: dllm.Piece?
local stream = {}
stream.__index = stream
function stream:close()
  local number = self.number
  self.number = nil
  if number then self.from:remove(number) end
end
stream.__close = stream.close
function stream:__call()
  if not self.number then return nil end
  local ok, piece = pcall(function()
    self.from:step()
    local text, about = self.from:text(self.number, "next"), self.from:describe(self.number)
    local canvas = self.from:text(self.number, "canvas")
    if about.finish ~= "open" then self.generation = generation_of(self.from, self.number) end
    return { text = text, canvas = canvas, open = about.open, step = about.steps }
  end)
  if not ok or self.generation then self:close() end
  if not ok then error(piece, 0) end
  return piece
end
---@param prompt dllm.Prompt
---@param values? dllm.RequestSettings
---@return dllm.Stream
function generator:stream(prompt, values)
  local made = setmetatable({ from = self, number = self:add(prompt_of(prompt, values)) }, stream)
  return made, nil, nil, made
end

-- Errors that a batch raises: they are not those of one prompt.
local OF_ALL = { not_found = true, cancelled = true, deadline_exceeded = true }
-- Adds requests from number `at` on, as many as there are slots; returns the first that is left.
local function add_some(self, requests, at, numbers, results)
  while requests[at] do
    local ok, number = pcall(self.add, self, requests[at])
    if not ok then
      if type(number) ~= "table" or OF_ALL[number.code] then error(number, 0) end
      -- The slots of the requests before this one are free after the run.
      if number.code == "resource_exhausted" and next(numbers) then return at end
      results[at] = number
    else
      numbers[at] = number
    end
    at = at + 1
  end
  return at
end
-- Decodes several prompts together. Returns a generation or an error {code, message, hint} for each; an error of one
-- prompt does not end the others. Prompt number i has the seed seed + i - 1.
---@param prompts dllm.Prompt[]
---@param values? dllm.RequestSettings
---@return (dllm.Generation|dllm.Error)[]
function generator:batch(prompts, values)
  if type(prompts) ~= "table" then
    fail("invalid_argument", "batch takes a list of prompts, not " .. shown(prompts))
  end
  local requests, results, at = {}, {}, 1
  for i, prompt in ipairs(prompts) do
    requests[i] = prompt_of(prompt, values)
    local seed = requests[i].seed or 0
    check_number(seed, "the seed of a batch is a number")
    requests[i].seed = seed + i - 1
  end
  while requests[at] do
    local numbers = {}
    then_remove(self, numbers, function()
      at = add_some(self, requests, at, numbers, results)
      self:run()
      for i, number in pairs(numbers) do results[i] = select(2, pcall(generation_of, self, number)) end
    end)
  end
  return results
end

-- Loads a model or data set of the hub into the cache, and returns its path. values: options of kind hub.
---@param name string "org/name", "org/name@revision" or "org/name:file"
---@param values? dllm.HubSettings
---@return string path
function dllm.pull(name, values) return raw.hub_pull(name, values) end

-- Weights to look into: a checkpoint, a model folder, a safetensors or GGUF file.
local checkpoint = raw.class_checkpoint
function dllm.checkpoint(path) return raw.checkpoint_open_task(path) end
function checkpoint:describe() return decode(raw.checkpoint_describe(self)) end
function checkpoint:tensor(name) return raw.checkpoint_tensor(self, name) end
function checkpoint:verify() raw.checkpoint_verify(self) end

return dllm
