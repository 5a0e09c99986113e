-- Medians and the top ten of files and functions.   lua_tool size.lua ROOT
-- Works on the layout that clang-format gives our C and C++: a function's closing brace stands at
-- the indent of its first line, members of a class two columns further in.
local files = require "files"
local size = {}

local function is_generated(text) return text:match("^[^\n]*"):lower():match("generated") ~= nil end

-- What a line outside a function opens: "class" for what holds members, "other" for the rest.
local function opens(line)
  if not line:match("{%s*$") then return nil end
  if line:match("^%s*namespace") or line:match("^%s*extern") then return "other" end
  local plain = line:gsub("^%s*template%s*<.->%s*", "")
  if plain:match("^%s*class ") or plain:match("^%s*struct ") or plain:match("^%s*union ") then
    return not plain:match("%)") and "class" or nil
  end
  return plain:match("^%s*enum ") and "class" or nil
end

-- {{name, lines}} of one C or C++ file.
function size.functions(text)
  local list, classes, number = {}, {}, 0
  local head, head_line, close  -- the declaration so far, where it starts, the end of its body
  text = text:gsub("/%*.-%*/", function(comment) return (comment:gsub("[^\n]", "")) end)
  local function add()
    local name = head:match("([%w_:~]+)%s*%(") or "?"
    list[#list + 1] = {name = name, lines = number - head_line + 1}
    head, close = nil, nil
  end
  for line in (text .. "\n"):gmatch("(.-)\n") do
    number = number + 1
    local indent = line:match("^ *")
    local expected = #classes > 0 and classes[#classes] + 2 or 0
    if close then
      if line:sub(1, #close) == close then add() end
    elseif line:match("^%s*$") or line:match("^%s*//") or line:match("^%s*%a+:$") then
      head = nil
    elseif opens(line) then
      if opens(line) == "class" then classes[#classes + 1] = #indent end
      head = nil
    elseif line:match("^%s*}") then
      if classes[#classes] == #indent then classes[#classes] = nil end
      head = nil
    elseif #indent == expected or head then
      local continues = head and (#indent > expected or head:match("^%s*template"))
      if not continues then head, head_line = "", number end
      head = head .. " " .. line
      local call = head:match("^[^=]*%(") or head:match("operator[^%w%s]*%(")
      if call and line:match("{%s*$") then
        close = string.rep(" ", expected) .. "}"
      elseif call and line:match("{.*}%s*$") then
        add()
      elseif line:match(";%s*$") then
        head = nil
      end
    end
  end
  return list
end

local function median(list)
  if #list == 0 then return 0 end
  table.sort(list, function(a, b) return a.lines < b.lines end)
  return list[(#list + 1) // 2].lines
end

local function print_top(title, list)
  table.sort(list, function(a, b)
    if a.lines ~= b.lines then return a.lines > b.lines end
    return a.name < b.name
  end)
  print(title)
  for i = 1, math.min(10, #list) do
    print(string.format("  %5d  %s", list[i].lines, list[i].name))
  end
end

local function main(root)
  local sources, functions, total, generated = {}, {}, 0, 0
  for _, folder in ipairs {"include", "src", "abi", "tests", "bench", "scripts", "bindings"} do
    local extensions = {"h", "hpp", "c", "cpp", "lua", "py"}
    for _, path in ipairs(files.list(root, folder, extensions)) do
      local text = files.read(root .. "/" .. path)
      local _, lines = text:gsub("\n", "")
      if is_generated(text) then
        generated = generated + 1
      else
        total = total + lines
        sources[#sources + 1] = {name = path, lines = lines}
        if path:match("%.[hc]p?p?$") then
          for _, fn in ipairs(size.functions(text)) do
            functions[#functions + 1] = {name = fn.name .. "  " .. path, lines = fn.lines}
          end
        end
      end
    end
  end
  print(string.format("%d files, %d lines, %d generated files left out", #sources, total,
                      generated))
  print(string.format("median file %d lines, median function %d lines (of %d)", median(sources),
                      median(functions), #functions))
  print_top("longest files", sources)
  print_top("longest functions", functions)
end

if arg and arg[0] and arg[0]:match("size%.lua$") then main(arg[1] or ".") end
return size
