-- Objects of the library, and its errors, as in the embedded Lua: methods, close(), <close>, the collector.
local objects = {}

-- Errors are tables {code, message, hint}.
local Failure = {}
Failure.__index = Failure
function Failure:__tostring()
  return self.hint ~= "" and self.message .. "\n" .. self.hint or self.message
end
function objects.fail(code, message, hint)
  error(setmetatable({code = code, message = message, hint = hint or ""}, Failure), 0)
end

-- The metatable of a noun, which is also the table of its methods.
function objects.class(noun, host)
  local class = {__name = "dllm." .. noun}
  class.__index = class
  function class:close()
    local own = self.own
    self.own = nil
    if own then host.free(own) end
  end
  class.__close = class.close
  function class:__tostring() return "dllm." .. noun .. (self.own and "" or " (closed)") end
  return class
end

-- The handle of an object of a noun; nil is NULL where that is allowed.
function objects.handle(host, classes, fn, p, value)
  if value == nil and p.null then return nil end
  if type(value) ~= "table" or getmetatable(value) ~= classes[p.noun] then
    objects.fail("invalid_argument", string.format("%s: %s must be a %s, not %s", fn[1], p[2], p.noun, type(value)))
  end
  if not value.own then objects.fail("invalid_argument", p[2] .. " is a closed " .. p.noun) end
  if p.writes and value.busy then
    objects.fail("failed_precondition", "the " .. p.noun .. " runs: " .. fn[1] .. " has to wait until the run ends",
                 "a callback may read the object, or answer dllm.STOP")
  end
  return host.handle(value.own)
end

return objects
