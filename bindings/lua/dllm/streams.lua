-- The requests of streams that the collector takes. A finalizer may run inside of any call, so that the next request
-- removes them.
return function(generator)
  local add, stream = generator.add, generator.stream

  local function remove_left(self)
    while self.left and self.left[1] do
      local ok, problem = pcall(generator.remove, self, self.left[1])
      if not ok and problem.code == "failed_precondition" then return end -- inside of a callback
      table.remove(self.left, 1)
    end
  end

  local function leave(made)
    local from = made.from
    if not made.number then return end
    from.left = from.left or {}
    table.insert(from.left, made.number)
    made.number = nil
  end

  -- A table of LuaJIT has no finalizer; what newproxy makes has.
  local function watch(made)
    if newproxy then
      made.watch = newproxy(true)
      getmetatable(made.watch).__gc = function() leave(made) end
      return
    end
    local class = getmetatable(made)
    class.__gc = leave
    setmetatable(made, class) -- the collector looks at __gc here
  end

  function generator:add(values)
    remove_left(self)
    return add(self, values)
  end

  function generator:stream(prompt, values)
    local made = stream(self, prompt, values)
    watch(made)
    return made, nil, nil, made
  end
end
