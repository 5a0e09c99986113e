-- Sudoku: a masked diffusion model fills the open cells of a grid, and whole grids are checked.
--   dllm run scripts/recipes/sudoku.lua [--size 6] [--steps 3000] [--out runs/sudoku] [--score RUN] [--tiny]
-- --size 9 for 9x9; --threads 1 where others use the machine; --score RUN scores an earlier run without training. A training grid
-- has any clues; those of the score leave one solution only. A grid is right when it keeps its clues and every row, column and
-- box has each digit once. --from RUN starts from a run, and --distill_of N also takes it as a teacher: the student matches two of
-- the teacher's N steps in one.
local here = debug.getinfo(1, "S").source:match "^@(.*/)" or ""
local tasks = dofile(here .. "tasks.lua")

local USAGE = "dllm run scripts/recipes/sudoku.lua --size 6|9 [--steps N] [--out RUN] [--score RUN] [--count N] [--tiny]"
local s = tasks.settings({ size = 6, clues_from = 0, clues_to = 0, out = "runs/sudoku", score = "", count = 200, steps = 3000,
    batch = 64, layers = 4, hidden = 128, lr = 2e-3, threads = 0, decode_steps = 0, seed = 1,
    from = "", distill_of = 0, distill_kind = "forward" },
  { steps = 6, batch = 4, layers = 1, hidden = 32, count = 4 }, USAGE)
if not s then return end
assert(s.size == 6 or s.size == 9, "--size is 6 or 9")
local how = {}
if s.distill_of > 0 then
  assert(s.from ~= "" or s.score ~= "", "--distill_of needs --from RUN, the teacher")
  how.teacher, how.objective_options = s.from, { teacher = "model", distill = 1, distill_kind = s.distill_kind, distill_steps = 2,
    distill_of = s.distill_of, own_weight = 0 }
end
local n, box_rows, box_columns = s.size, s.size == 6 and 2 or 3, 3
local cells = n * n
if s.clues_from == 0 then s.clues_from = n == 6 and 16 or 32 end
if s.clues_to == 0 then s.clues_to = n == 6 and 20 or 45 end

-- The units of a cell: its row, column and box, as bits of the digits that are there.
local row_of, column_of, box_of = {}, {}, {}
for i = 1, cells do
  local row, column = (i - 1) // n, (i - 1) % n
  row_of[i], column_of[i] = row + 1, column + 1
  box_of[i] = row // box_rows * (n // box_columns) + column // box_columns + 1
end

local function shuffled(count)
  local list = {}
  for i = 1, count do list[i] = i end
  for i = count, 2, -1 do
    local k = math.random(i)
    list[i], list[k] = list[k], list[i]
  end
  return list
end

-- Counts solutions of a grid (0: open) up to `most`; the last one stays in `grid`. Digits are tried in random order.
local function solve(grid, most)
  local rows, columns, boxes = {}, {}, {}
  for i = 1, n do rows[i], columns[i], boxes[i] = 0, 0, 0 end
  local function flip(i, digit)
    local bit = 1 << digit
    rows[row_of[i]], columns[column_of[i]], boxes[box_of[i]] = rows[row_of[i]] ~ bit, columns[column_of[i]] ~ bit, boxes[box_of[i]] ~ bit
  end
  for i = 1, cells do if grid[i] ~= 0 then flip(i, grid[i]) end end
  local found = 0
  local function go()
    local best, fewest, best_used = nil, n + 1, nil
    for i = 1, cells do -- the open cell with the fewest digits left
      if grid[i] == 0 then
        local used, left = rows[row_of[i]] | columns[column_of[i]] | boxes[box_of[i]], n
        for digit = 1, n do left = left - (used >> digit & 1) end
        if left < fewest then best, fewest, best_used = i, left, used end
        if fewest <= 1 then break end
      end
    end
    if not best then
      found = found + 1
      return found >= most
    end
    for _, digit in ipairs(shuffled(n)) do
      if best_used >> digit & 1 == 0 then
        grid[best] = digit
        flip(best, digit)
        if go() then return true end
        flip(best, digit)
        grid[best] = 0
      end
    end
  end
  go()
  return found
end

-- Full grids by search are slow: each of a pool gives many by renaming digits and moving lines inside of their bands.
local pool = {}
for i = 1, s.steps > 100 and 400 or 10 do
  pool[i] = {}
  for k = 1, cells do pool[i][k] = 0 end
  solve(pool[i], 1)
end
local function lines(band) -- an order of rows or columns that keeps bands of `band` together
  local order = {}
  for _, group in ipairs(shuffled(n // band)) do
    for _, k in ipairs(shuffled(band)) do order[#order + 1] = (group - 1) * band + k end
  end
  return order
end
local function full_grid()
  local from, digits, rows, columns, grid = pool[math.random(#pool)], shuffled(n), lines(box_rows), lines(box_columns), {}
  for i = 1, cells do grid[i] = digits[from[(rows[row_of[i]] - 1) * n + columns[column_of[i]]]] end
  return grid
end

-- A grid as digits, and which are clues; unique: its clues leave one solution.
local function puzzle(unique)
  while true do
    local grid, clues, given, open = full_grid(), math.random(s.clues_from, s.clues_to), {}, {}
    for i = 1, cells do given[i] = 0 end
    for k, i in ipairs(shuffled(cells)) do if k <= clues then given[i] = 1 end end
    for i = 1, cells do open[i] = given[i] * grid[i] end
    if not unique or solve(open, 2) == 1 then return table.concat(grid), given end
  end
end

local characters = ("123456789"):sub(1, n)
local name = string.format("sudoku_%dx%d", n, n)
if s.decode_steps == 0 then s.decode_steps = cells end
local model, ids, texts
if s.score ~= "" then
  model, ids, texts = tasks.load(s.score, characters, s, {})
else
  model, ids, texts = tasks.train(puzzle, characters, s, how)
end
math.randomseed(s.seed + 1000) -- puzzles of the score are the same for every run
-- One solution: the filled grid is right when it is that one.
local share, seconds = tasks.score(function() return puzzle(true) end, function(filled, grid) return filled == grid end,
  model, ids, texts, s, {})
print(string.format("%d puzzles of %d to %d clues, %d s", s.count, s.clues_from, s.clues_to, seconds))
tasks.report(name, share, "sudoku.lua", s, "size", { "distill_of", "distill_kind", "steps", "batch", "layers", "hidden", "lr", "count", "seed" })
