-- The library's counter-based random numbers in Lua: threefry 2x32 with 20 rounds (Salmon et al. 2011), keys as
-- src/base/random.h makes them, so that a script can draw what the library draws, bit for bit.
local random = {}

local MASK = 0xFFFFFFFF
local ROTATIONS = { { 13, 15, 26, 6 }, { 17, 29, 16, 24 } }

-- One block of the cipher: key and counter words in, two random words out.
function random.threefry(k0, k1, x0, x1)
  local ks = { [0] = k0, k1, k0 ~ k1 ~ 0x1BD11BDA }
  x0, x1 = (x0 + k0) & MASK, (x1 + k1) & MASK
  for group = 0, 4 do
    for _, r in ipairs(ROTATIONS[group % 2 + 1]) do
      x0 = (x0 + x1) & MASK
      x1 = (((x1 << r) | (x1 >> (32 - r))) & MASK) ~ x0
    end
    x0 = (x0 + ks[(group + 1) % 3]) & MASK
    x1 = (x1 + ks[(group + 2) % 3] + group + 1) & MASK
  end
  return x0, x1
end

local function fold_in(k0, k1, word)
  return random.threefry(k0, k1, 0, word & MASK)
end

-- Purposes have their own streams; numbers are those of the library and never change.
random.stream = { init = 1, shuffle = 2, time = 3, mask = 4, dropout = 5, decode = 6, rollout = 7, script = 8 }

-- The key of one row in one step. seed, step, row: integers. stream: a name of random.stream.
function random.key(seed, stream, step, row)
  local number = assert(random.stream[stream], "unknown stream " .. tostring(stream))
  local k0, k1 = fold_in((seed >> 32) & MASK, seed & MASK, number)
  for _, word in ipairs { step, row } do
    k0, k1 = fold_in(k0, k1, word >> 32)
    k0, k1 = fold_in(k0, k1, word)
  end
  return k0, k1
end

-- 32 random bits: element `index` (from 0) of the key's endless array.
function random.bits(k0, k1, index)
  local a, b = random.threefry(k0, k1, (index >> 32) & MASK, index & MASK)
  return a ~ b
end

-- Uniform in [0, 1): the upper 23 bits, exact in single precision.
function random.uniform(k0, k1, index)
  return (random.bits(k0, k1, index) >> 9) / 8388608.0
end

-- Rounds to single precision, as the library's arrays hold numbers.
function random.f32(x) return (string.unpack("<f", string.pack("<f", x))) end

-- A generator with a position of its own: what math.random uses.
function random.generator(seed)
  local position = 0
  local k0, k1 = random.key(seed, "script", 0, 0)
  return function(low, high)
    local first, second = random.bits(k0, k1, position), random.bits(k0, k1, position + 1)
    position = position + 2
    if low == nil then return ((first << 21) ~ (second >> 11)) / 9007199254740992.0 end
    if high == nil then low, high = 1, low end
    assert(low <= high, "interval is empty")
    return low + ((first << 32) | second) % (high - low + 1)
  end
end

return random
