-- Whether a text is UTF-8. LuaJIT has no library for it.
local checked = {}

-- Bytes of the character that begins with a byte, and the limits of its second byte.
local function shape(first)
  if first < 0x80 then return 1 end
  if first >= 0xC2 and first <= 0xDF then return 2, 0x80, 0xBF end
  if first >= 0xE0 and first <= 0xEF then return 3, first == 0xE0 and 0xA0 or 0x80, first == 0xED and 0x9F or 0xBF end
  if first >= 0xF0 and first <= 0xF4 then return 4, first == 0xF0 and 0x90 or 0x80, first == 0xF4 and 0x8F or 0xBF end
end

-- Bytes of the character at a place; nil where there is none.
local function size_at(text, at)
  local size, low, high = shape(text:byte(at))
  if not size or size == 1 then return size end
  local second = text:byte(at + 1) or 0
  if second < low or second > high then return nil end
  for i = at + 2, at + size - 1 do
    local byte = text:byte(i) or 0
    if byte < 0x80 or byte > 0xBF then return nil end
  end
  return size
end

-- What is wrong with a text, and where; nil: it is UTF-8.
function checked.fault(text)
  if not text:find "[\128-\255]" or utf8 and utf8.len(text) then return nil end
  local at, count = 1, 1
  while at <= #text do
    local size = size_at(text, at)
    if not size then
      local what = text:find("^\237[\160-\191][\128-\191]", at) and "a lone surrogate" or "not UTF-8"
      return what .. " at character " .. count
    end
    at, count = at + size, count + 1
  end
  return nil
end

return checked
