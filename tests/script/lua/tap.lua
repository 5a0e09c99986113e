-- A test script says "ok" or "not ok" per check and fails at its end when one was not.
local tap = { count = 0, failed = 0 }

function tap.ok(condition, name)
  tap.count = tap.count + 1
  if not condition then tap.failed = tap.failed + 1 end
  print((condition and "ok " or "not ok ") .. tap.count .. " - " .. name)
end

function tap.is(got, wanted, name)
  tap.ok(got == wanted, name .. (got == wanted and "" or (": got " .. tostring(got) .. ", wanted " .. tostring(wanted))))
end

-- The error of a call that must fail.
function tap.fails(name, fn, ...)
  local ok, err = pcall(fn, ...)
  tap.ok(not ok, name)
  return err
end

function tap.done()
  print("1.." .. tap.count)
  if tap.failed > 0 then error(tap.failed .. " of " .. tap.count .. " checks failed", 0) end
end

return tap
