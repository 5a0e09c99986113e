-- Long declarations of generated sources, cut into lines.
local lines = {}

-- `head` with `words` behind it, one space between two of them; where a line would be longer than `width`, the next one
-- begins with `indent`. Words bring their own commas.
function lines.fill(head, words, width, indent)
  local made, current = {}, head
  for i, word in ipairs(words) do
    local gap = i == 1 and "" or " "
    if #current + #gap + #word > width then
      made[#made + 1], current, gap = current, indent, ""
    end
    current = current .. gap .. word
  end
  made[#made + 1] = current
  return table.concat(made, "\n")
end

-- `head`, `words` with commas between them, `tail`: in one line where it fits, else `head` alone and the words in lines
-- that begin with `indent`.
function lines.fill_below(head, words, tail, width, indent)
  local whole = head .. table.concat(words, ", ") .. tail
  if #whole <= width then return whole end
  local made, current = {head}, indent
  for i, word in ipairs(words) do
    word = word .. (i < #words and "," or tail)
    local gap = current == indent and "" or " "
    if #current + #gap + #word > width then
      made[#made + 1], current, gap = current, indent, ""
    end
    current = current .. gap .. word
  end
  made[#made + 1] = current
  return table.concat(made, "\n")
end

return lines
