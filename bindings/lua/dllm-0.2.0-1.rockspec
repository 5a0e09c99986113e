rockspec_format = "3.0"
package = "dllm"
version = "0.2.0-1"
source = {url = "file://dllm-0.2.0-1.tar.gz", dir = "dllm-0.2.0"}
description = {
  summary = "Train and decode diffusion language models: Lua over the C ABI of libdllm",
  license = "Apache-2.0",
}
supported_platforms = {"unix"}
dependencies = {"lua >= 5.1, < 5.5"} -- 5.4, or LuaJIT, which is 5.1
build = {
  type = "builtin",
  modules = {
    dllm = "dllm.lua",
    ["dllm.functions"] = "dllm/functions.lua",
    ["dllm.host_jit"] = "dllm/host_jit.lua",
    ["dllm.host_puc"] = "dllm/host_puc.lua",
    ["dllm.hub"] = "dllm/hub.lua",
    ["dllm.json"] = "dllm/json.lua",
    ["dllm.layer"] = "dllm/layer.lua",
    ["dllm.library"] = "dllm/library.lua",
    -- No external_dependencies: luarocks looks for ffi.h in /usr/include alone, Debian has it in a folder of the architecture.
    ["dllm.native"] = {sources = {"dllm/native.c"}, libraries = {"ffi"}},
    ["dllm.objects"] = "dllm/objects.lua",
    ["dllm.random"] = "dllm/random.lua",
    ["dllm.random_jit"] = "dllm/random_jit.lua",
    ["dllm.raw"] = "dllm/raw.lua",
    ["dllm.settings"] = "dllm/settings.lua",
    ["dllm.streams"] = "dllm/streams.lua",
    ["dllm.utf8"] = "dllm/utf8.lua",
  },
}
