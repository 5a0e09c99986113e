-- install_rock.lua ROCKSPEC SOURCES PREFIX: what `luarocks install` does with a rockspec of build type builtin.
local rockspec, sources, prefix = arg[1], arg[2], arg[3]
local spec = {}
assert(loadfile(rockspec, "t", spec))()
assert(spec.build.type == "builtin")

local function run(...)
  local words = {...}
  for i, word in ipairs(words) do words[i] = "'" .. word .. "'" end
  assert(os.execute(table.concat(words, " ")), table.concat(words, " "))
end

local function folder_of(kind, module)
  local folder = prefix .. "/" .. kind .. "/" .. module:gsub("[^.]*$", ""):gsub("%.", "/")
  run("mkdir", "-p", folder)
  return folder
end

for name, from in pairs(spec.build.modules) do
  local last = name:match "[^.]*$"
  if type(from) == "string" then
    run("cp", sources .. "/" .. from, folder_of("lua", name) .. last .. ".lua")
  else
    local words = {"cc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", folder_of("lib", name) .. last .. ".so"}
    for _, file in ipairs(from.sources) do words[#words + 1] = sources .. "/" .. file end
    for _, library in ipairs(from.libraries) do words[#words + 1] = "-l" .. library end
    for flag in os.getenv "LUA_CFLAGS":gmatch "%S+" do words[#words + 1] = flag end
    run(table.unpack(words))
  end
end
for name, from in pairs(spec.build.install.lua) do run("cp", sources .. "/" .. from, folder_of("lua", name)) end
