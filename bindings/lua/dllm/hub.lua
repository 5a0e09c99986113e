-- Models and data sets of the Hugging Face hub by name, and the cache that has them. dllm.with_task ends what takes long.
local raw = require "dllm.raw"
local decode = raw.json.decode

---@class dllm.hub
local hub = {}

-- Loads the files of a name into the cache, unless they are there; returns the path that dllm.load takes. A pull that ends
-- early keeps its bytes, and the next one goes on with them.
---@param name string "org/name", "org/name@revision" or "org/name:file"
---@param values? dllm.HubSettings
---@return string path
function hub.pull(name, values) return raw.hub_pull(name, values) end

-- Asks the hub what a pull would load, and loads nothing. Returns name, commit, path, bytes, missing (bytes that are not in
-- the cache), free (bytes that the disk has left), memory and files, each with path, size, cached and weights.
---@param name string
---@param values? dllm.HubSettings
---@return table
function hub.describe(name, values) return decode(raw.hub_describe(name, values)) end

-- The repositories in the cache; the network is not used. Each has name, kind, bytes, incomplete, used (seconds since 1970),
-- path and snapshots, each with commit, revisions, files, bytes and path.
---@return table[]
function hub.list() return decode(raw.hub_list()) end

-- Reads every file of a repository in the cache. Returns name, files, checked (how many have a SHA-256), bytes and faults,
-- each with path and what. Raises "not_found" for a name that the cache does not have.
---@param name string
---@return table
function hub.verify(name) return decode(raw.hub_verify(name)) end

-- Removes a repository from the cache, or one revision of it for "org/name@revision". Returns the bytes that were freed.
---@param name string
---@return integer bytes
function hub.remove(name) return decode(raw.hub_remove(name)).freed end

return hub
