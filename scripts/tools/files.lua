-- Reading, writing and listing files for our tools.
local files = {}

function files.read(path)
  local file, why = io.open(path, "rb")
  if not file then error(why, 0) end
  local text = file:read("a")
  file:close()
  return text
end

function files.exists(path)
  local file = io.open(path, "rb")
  if file then file:close() end
  return file ~= nil
end

function files.write(path, text)
  local file, why = io.open(path, "wb")
  if not file then error(why, 0) end
  file:write(text)
  file:close()
end

local function quote(text) return "'" .. text:gsub("'", "'\\''") .. "'" end
files.quote = quote

-- The lines a shell command prints.
function files.lines_of(command)
  local pipe = assert(io.popen(command))
  local lines = {}
  for line in pipe:lines() do lines[#lines + 1] = line end
  local ok = pipe:close()
  return lines, ok
end

-- Files under `root`/`folder` whose names end with one of the extensions, sorted, relative to root.
function files.list(root, folder, extensions)
  local tests = {}
  for i, extension in ipairs(extensions) do tests[i] = "-name " .. quote("*." .. extension) end
  local command = "cd " .. quote(root) .. " && [ -d " .. quote(folder) .. " ] && find " ..
                  quote(folder) .. " -type f \\( " .. table.concat(tests, " -o ") .. " \\)"
  local list = files.lines_of(command)
  table.sort(list)
  return list
end

-- Writes `text`, or with check = true only says whether the file already holds it.
function files.put(path, text, check)
  local same = files.exists(path) and files.read(path) == text
  if not same and not check then files.write(path, text) end
  return same
end

return files
