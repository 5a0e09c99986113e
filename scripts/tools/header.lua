-- Reads a public header: constants, types, functions with their comment blocks.
-- Anything else in a header is an error: what this file cannot read, other languages cannot either.
local header = {}

-- Names of the block, in order; Ranks is for functions that every process must call together, Deprecated for those that
-- have a successor: `Deprecated 2026-12-01: use dllm_x`.
local tags = {Returns = true, Owns = true, Threads = true, Since = true, Ranks = true, Deprecated = true}

local function trim(text) return (text:gsub("^%s+", ""):gsub("%s+$", "")) end
local function squeeze(text) return trim((text:gsub("%s+", " "))) end

local function line_of(text, at)
  local _, count = text:sub(1, at):gsub("\n", "")
  return count + 1
end

-- Paragraphs of the lines after the summary: {kind = "text", text} or, for tables that are indented by 4 spaces,
-- {kind = "table", text} with its lines as they are. An empty line inside a table is part of the table.
local function paragraphs_of(lines)
  local at = 1
  while lines[at] == "" do at = at + 1 end
  while lines[at] and lines[at] ~= "" do at = at + 1 end
  local paragraphs, last, gap = {}, nil, false
  for i = at, #lines do
    local line = lines[i]
    local kind = line:match "^    " and "table" or "text"
    if line == "" then
      gap = true
    else
      if not last or last.kind ~= kind or (gap and kind == "text") then
        last = {kind = kind, lines = {}}
        paragraphs[#paragraphs + 1] = last
      elseif gap then
        last.lines[#last.lines + 1] = ""
      end
      last.lines[#last.lines + 1] = kind == "table" and line:sub(5) or line
      gap = false
    end
  end
  for i, part in ipairs(paragraphs) do
    local text = table.concat(part.lines, "\n")
    paragraphs[i] = {kind = part.kind, text = part.kind == "table" and text or squeeze(text)}
  end
  return paragraphs
end

-- A comment block as {summary, details, paragraphs, params = {{name, text}}, returns, owns, threads, since, deprecated};
-- details is the text of paragraphs in one line.
function header.parse_block(comment)
  local block = {prose = {}, params = {}}
  local lines = {}  -- of the prose, with their indentation
  local open  -- the entry that continuation lines belong to
  for line in (comment:gsub("^/%*%*?", " *"):gsub("%*/$", "") .. "\n"):gmatch("(.-)\n") do
    local body = line:gsub("^ %* ?", "", 1)
    local tag, rest = body:match("^(%u%l+)%s%s+(.+)$")
    local name, text = body:match("^  ([%l_][%w_]*)%s%s+(.+)$")
    if tag and tags[tag] then
      open = {text = rest}
      block[tag:lower()] = open
    elseif name and not block.returns then
      open = {name = name, text = text}
      block.params[#block.params + 1] = open
    elseif open and body:match("^%s%s+%S") then
      open.text = open.text .. " " .. trim(body)
    else
      open = nil
      block.prose[#block.prose + 1] = trim(body)
      lines[#lines + 1] = body:gsub("%s+$", "")
    end
  end
  for tag in pairs(tags) do
    local entry = block[tag:lower()]
    block[tag:lower()] = entry and squeeze(entry.text)
  end
  local prose = table.concat(block.prose, "\n"):gsub("^%s+", ""):gsub("%s+$", "")
  local first, rest = prose:match("^(.-)\n\n+(.*)$")
  block.summary = squeeze(first or prose)
  block.details = squeeze(rest or "")
  block.paragraphs = paragraphs_of(lines)
  block.prose = nil
  return block
end

-- "const dllm_model *model" -> {type = "const dllm_model *", name = "model"}
local function parse_param(text)
  text = squeeze(text)
  local kind, name = text:match("^(.-)([%a_][%w_]*)$")
  if not kind or kind == "" then return {type = text, name = ""} end
  return {type = squeeze(kind):gsub("%s*%*", " *"):gsub("%* %*", "**"), name = name}
end

local function parse_function(declaration, where)
  local result, name, list = declaration:match("^DLLM_API%s+(.-)([%w_]+)%s*%((.*)%)$")
  if not name then error(where .. ": cannot read the declaration: " .. squeeze(declaration), 0) end
  local fn = {name = name, result = squeeze(result):gsub("%s*%*", " *"), params = {}}
  if squeeze(list) == "void" then return fn end
  for part in (list .. ","):gmatch("%s*(.-)%s*,") do
    fn.params[#fn.params + 1] = parse_param(part)
  end
  return fn
end

local function parse_enum(body, group, where, out)
  for part in (body:gsub("/%*.-%*/", "") .. ","):gmatch("%s*(.-)%s*,") do
    if part ~= "" then
      local name, value = part:match("^([%u%d_]+)%s*=%s*(%-?%d+)$")
      if not name then error(where .. ": a constant needs an explicit number: " .. part, 0) end
      out[#out + 1] = {name = name, value = math.tointeger(tonumber(value)), group = group}
    end
  end
end

-- The only typedefs other than opaque handles.
local scalar_typedefs = {
  ["typedef int32_t dllm_status"] = true,
  ["typedef int32_t (*dllm_event_fn)(const dllm_event *event, void *user_data)"] = true,
  -- Hooks of a host (dllm/host.h).
  ["typedef void *(*dllm_allocate_fn)(int64_t size, int64_t alignment, void *user_data)"] = true,
  ["typedef void (*dllm_free_fn)(void *memory, int64_t size, void *user_data)"] = true,
  ["typedef void (*dllm_chunk_fn)(void *job, int64_t index)"] = true,
  ["typedef void (*dllm_parallel_fn)(int64_t count, dllm_chunk_fn chunk, void *job, void *user_data)"] = true,
  ["typedef void (*dllm_log_fn)(int32_t level, const char *line, void *user_data)"] = true,
}

local function read_statement(text, at, comment, where, out)
  local enum, stop = text:match("^enum%s*{(.-)}%s*;()", at)
  if enum then
    parse_enum(enum, comment and header.parse_block(comment).summary or "", where, out.constants)
    return stop
  end
  local statement
  statement, stop = text:match("^([^;{}]-);()", at)
  if not statement then error(where .. ": cannot read: " .. text:match("^[^\n]*", at), 0) end
  local handle, again = statement:match("^typedef struct dllm_([%l]+) dllm_([%l]+)$")
  if handle and handle == again then
    out.types[#out.types + 1] = handle
  elseif statement:match("^DLLM_API%s") then
    local fn = parse_function(statement, where)
    fn.block = comment and header.parse_block(comment)
    fn.where = where
    out.functions[#out.functions + 1] = fn
  elseif not scalar_typedefs[squeeze(statement)] then
    error(where .. ": not a thing for a public header: " .. squeeze(statement), 0)
  end
  return stop
end

-- {types = {"model"}, constants = {{name, value, group}},
--  functions = {{name, result, params = {{type, name}}, block, where}}}
function header.parse(text, name)
  local out = {types = {}, constants = {}, functions = {}, name = name}
  -- Preprocessor lines, with the lines they continue on; kept empty so that line numbers stay.
  text = ("\n" .. text):gsub("\n#[^\n]*", "\n"):sub(2)
  local at, comment = 1, nil
  while true do
    at = text:find("%S", at)
    if not at then return out end
    if text:sub(at, at + 1) == "/*" then
      local stop = text:find("*/", at, true) or error(name .. ": comment without end", 0)
      comment = text:sub(at, stop + 1)
      at = stop + 2
    elseif text:match('^extern%s+"C"%s*{', at) then
      at = text:match('^extern%s+"C"%s*{()', at)
    elseif text:sub(at, at) == "}" then
      at = at + 1
    else
      at = read_statement(text, at, comment, name .. ":" .. line_of(text, at), out)
      comment = nil
    end
  end
end

return header
