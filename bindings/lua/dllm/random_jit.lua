-- scripts/lib/dllm/random.lua for LuaJIT, which has no whole numbers of 64 bits: the same cipher and the same numbers.
-- A seed is a whole number below 2^53.
local bit = require "bit"
local ffi = require "ffi"
local bxor, rol, tobit = bit.bxor, bit.rol, bit.tobit

local random = {}
local WORD = 2 ^ 32
local ROTATIONS = {{13, 15, 26, 6}, {17, 29, 16, 24}}

local function unsigned(x) return x % WORD end
local function add(a, b) return tobit(a + b) end
local function upper(x) return math.floor(x / WORD) end

-- One block of the cipher: key and counter words in, two random words out.
function random.threefry(k0, k1, x0, x1)
  k0, k1 = tobit(k0), tobit(k1)
  local ks = {[0] = k0, k1, bxor(k0, k1, 0x1BD11BDA)}
  x0, x1 = add(tobit(x0), k0), add(tobit(x1), k1)
  for group = 0, 4 do
    for _, r in ipairs(ROTATIONS[group % 2 + 1]) do
      x0 = add(x0, x1)
      x1 = bxor(rol(x1, r), x0)
    end
    x0 = add(x0, ks[(group + 1) % 3])
    x1 = add(x1, add(ks[(group + 2) % 3], group + 1))
  end
  return unsigned(x0), unsigned(x1)
end

local function fold_in(k0, k1, word) return random.threefry(k0, k1, 0, unsigned(word)) end

-- Purposes have their own streams; numbers are those of the library and never change.
random.stream = {init = 1, shuffle = 2, time = 3, mask = 4, dropout = 5, decode = 6, rollout = 7, script = 8}

-- The key of one row in one step. seed, step, row: whole numbers. stream: a name of random.stream.
function random.key(seed, stream, step, row)
  local number = assert(random.stream[stream], "unknown stream " .. tostring(stream))
  local k0, k1 = fold_in(unsigned(upper(seed)), unsigned(seed), number)
  for _, word in ipairs {step, row} do
    k0, k1 = fold_in(k0, k1, upper(word))
    k0, k1 = fold_in(k0, k1, word)
  end
  return k0, k1
end

-- 32 random bits: element `index` (from 0) of the key's endless array.
function random.bits(k0, k1, index)
  local a, b = random.threefry(k0, k1, upper(index), unsigned(index))
  return unsigned(bxor(a, b))
end

-- Uniform in [0, 1): the upper 23 bits, exact in single precision.
function random.uniform(k0, k1, index) return math.floor(random.bits(k0, k1, index) / 512) / 8388608 end

-- Rounds to single precision, as the library's arrays hold numbers.
local single = ffi.new "float[1]"
function random.f32(x)
  single[0] = x
  return single[0]
end

-- A generator with a position of its own; intervals of whole numbers are below 2^53.
function random.generator(seed)
  local position = 0
  local k0, k1 = random.key(seed, "script", 0, 0)
  return function(low, high)
    local first, second = random.bits(k0, k1, position), random.bits(k0, k1, position + 1)
    position = position + 2
    if low == nil then return (first * 2 ^ 21 + math.floor(second / 2048)) % 2 ^ 53 / 2 ^ 53 end
    if high == nil then low, high = 1, low end
    assert(low <= high, "interval is empty")
    local drawn = ffi.cast("uint64_t", first) * 4294967296ULL + ffi.cast("uint64_t", second)
    local span = high - low + 1
    local rest = tonumber(ffi.cast("int64_t", drawn) % ffi.cast("int64_t", span))
    return low + (rest < 0 and rest + span or rest) -- Lua's remainder, not C's
  end
end

return random
