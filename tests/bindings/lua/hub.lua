-- The nine points of ../run_hub.py.
local dllm = require "dllm"

local NAME = "tester/tiny"

local function raised(code, fn, ...)
  local ok, problem = pcall(fn, ...)
  assert(not ok, "nothing was raised")
  assert(problem.code == code, tostring(problem))
  return problem
end

local task = dllm.task()
local path = dllm.with_task(task, dllm.hub.pull, NAME, {attempts = 2})
local done, total = task:progress()
assert(done == total and total > 320000, done .. " of " .. total)
assert(io.open(path .. "/config.json")):close()

local plan = dllm.hub.describe(NAME)
assert(plan.name == NAME and plan.missing == 0 and #plan.files == 3 and plan.path == path and plan.free > 0)
assert(plan.files[3].cached and plan.files[3].weights)

local all = dllm.hub.list()
local one = all[1].snapshots[1]
assert(#all == 1 and all[1].name == NAME and all[1].kind == "model" and all[1].used > 1e9 and #all[1].snapshots == 1)
assert(one.files == 3 and #one.revisions == 1 and one.revisions[1] == "main" and one.path == path)

local report = dllm.hub.verify(NAME)
assert(report.files == 3 and report.checked == 1 and #report.faults == 0)

assert(raised("not_found", dllm.pull, "tester/tin").message:find("the hub has no model tester/tin", 1, true))
assert(dllm.pull(NAME, {offline = true}) == path)
assert(raised("not_found", dllm.pull, "tester/none", {offline = true}).message:find("not in the cache", 1, true))
assert(tostring(raised("not_found", dllm.pull, NAME, {endpoint = "http://127.0.0.1:1"})):find("endpoint", 1, true))

local began = os.time()
raised("deadline_exceeded", dllm.with_task, dllm.task {deadline = 500}, dllm.pull, "tester/slow")
assert(os.time() - began < 10)

assert(dllm.hub.remove(NAME) > 320000)
raised("not_found", dllm.hub.remove, NAME)
