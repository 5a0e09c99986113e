-- Does the order of a teacher's trajectories help to decode? A step decides the positions with the largest
--   -entropy - weight * (mean place in the order of trajectories at this part of the answer; 0: first, 1: last).
-- With weight 0 it is decoding by entropy alone. The score is the share of decoded tokens that the text has.
--   dllm run scripts/recipes/order_prior.lua --model MODEL --data stories.jsonl [--weights 0,1] [--steps 8] [--count 300]
--     [--teach 400] [--bins 16] [--context 0.25] [--out filled]
-- A row is a line of the file, or its "text". The first `count` rows are decoded after their first quarter, and the next `teach`
-- rows teach. --out writes the decoded rows to filled-WEIGHT.txt, which stories.lua --check scores.
local dllm = require "dllm"
local settings = { model = "", data = "", out = "", steps = 8, weights = "0,1", bins = 16, count = 300, teach = 400, context = 0.25 }
for i = 1, arg and #arg or 0, 2 do
  local key = tostring(arg[i]):match "^%-%-(.+)$"
  assert(key and settings[key] ~= nil and arg[i + 1], "unknown argument " .. tostring(arg[i]))
  settings[key] = key ~= "weights" and tonumber(arg[i + 1]) or arg[i + 1]
end

local model, tok = dllm.model(settings.model), dllm.tokenizer(settings.model)
local decoded, taught = {}, {}
for line in assert(io.open(settings.data)):lines() do
  local text = line:find "^{" and dllm.json.decode(line).text or line
  if text ~= "" then
    local list = #decoded < settings.count and decoded or taught
    list[#list + 1] = text
    if #taught == settings.teach then break end
  end
end
assert(#taught > 0, settings.data .. " has no rows after the first " .. settings.count .. ": use a smaller --count")

-- The mean place of each part of the answers, a fraction of the rows of a trajectory.
local function mean_places(bins)
  local path, sums, counts = os.tmpname(), {}, {}
  dllm.dataset_from(taught, tok):extract_trajectories(model, path, { context = settings.context })
  for b = 1, bins do sums[b], counts[b] = 0, 0 end
  for line in assert(io.open(path)):lines() do
    local order, last = dllm.json.decode(line).order, 2
    for _, row in ipairs(order) do last = math.max(last, row) end
    for i, row in ipairs(order) do
      local b = (i - 1) * bins // #order + 1
      sums[b], counts[b] = sums[b] + (row - 1) / (last - 1), counts[b] + 1
    end
  end
  os.remove(path)
  for b = 1, bins do sums[b] = sums[b] / math.max(1, counts[b]) end
  return sums
end
local places, shown = mean_places(settings.bins), {}
for b = 1, settings.bins do shown[b] = string.format("%.2f", places[b]) end
print("places " .. table.concat(shown, " "))

-- Decides the next positions of a row: equal numbers in each step. Returns true after the last one.
local function decide(decoder, row, step, weight)
  local said, order, scores = decoder:statistics(row.slot), {}, {}
  for i, position in ipairs(said.positions) do
    local b = (position - row.given) * settings.bins // row.open + 1
    order[i], scores[i] = i, -said.entropy[i] - weight * places[b]
  end
  table.sort(order, function(a, b)
    if scores[a] ~= scores[b] then return scores[a] > scores[b] end
    return a < b
  end)
  local positions, ids = {}, {}
  for i = 1, math.ceil(#order / (settings.steps - step + 1)) do
    positions[i], ids[i] = said.positions[order[i]], said.token[order[i]]
  end
  decoder:commit(row.slot, positions, ids)
  return #positions == #order
end

local function score(weight)
  local decoder = dllm.decoder(model, { policy = "low_confidence", steps = 1024, block_length = 1024, slots = #decoded })
  local mask, rows, left = model:get "mask_id", {}, {}
  for i, text in ipairs(decoded) do
    local ids, fixed = tok:encode(text), {}
    table.insert(ids, 1, tok:id "eos")
    local given = 1 + math.floor(settings.context * (#ids - 1))
    rows[i] = { ids = { table.unpack(ids) }, given = given, open = #ids - given }
    for k = 1, #ids do
      fixed[k] = k <= given and 1 or 0
      if k > given then ids[k] = mask end
    end
    rows[i].slot, left[i] = decoder:add(ids, fixed, { seed = i }), rows[i]
  end
  for step = 1, settings.steps do
    if #left == 0 then break end
    decoder:predict()
    local still = {}
    for _, row in ipairs(left) do
      if not decide(decoder, row, step, weight) then still[#still + 1] = row end
    end
    left = still
  end
  local file = settings.out ~= "" and assert(io.open(string.format("%s-%g.txt", settings.out, weight), "w"))
  local same, all = 0, 0
  for _, row in ipairs(rows) do
    local ids = decoder:ids(row.slot)
    for k = row.given + 1, #ids do
      all, same = all + 1, same + (ids[k] == row.ids[k] and 1 or 0)
    end
    if file then file:write(tok:decode(table.move(ids, 2, #ids, 1, {})), "<|endoftext|>\n") end
  end
  if file then file:close() end
  return same / all
end
for weight in settings.weights:gmatch "[^,]+" do
  print(string.format("score order_prior %.4f with weight %s, %d steps", score(tonumber(weight)), weight, settings.steps))
end
