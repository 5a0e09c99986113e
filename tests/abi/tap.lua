-- The few lines every check here shares: ok(condition, name, why), done().
local tap = {count = 0, failed = 0}

function tap.ok(condition, name, why)
  tap.count = tap.count + 1
  if condition then
    print("ok " .. tap.count .. " - " .. name)
  else
    tap.failed = tap.failed + 1
    print("not ok " .. tap.count .. " - " .. name)
    if why then print("# " .. tostring(why):gsub("\n", "\n# ")) end
  end
  return condition
end

function tap.done()
  print("1.." .. tap.count)
  os.exit(tap.failed == 0 and tap.count > 0)
end

return tap
