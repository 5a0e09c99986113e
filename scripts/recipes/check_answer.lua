-- For dllm eval --task answers --checker: a completion is right when it begins with the answer of its row.
local found = text:match "^%s*(%S+)" or ""
return found:sub(1, #row.answer) == row.answer, "expected " .. row.answer .. ", found " .. found
