-- Makes the manual of the C interface from the comment blocks of include/dllm: a page of HTML a noun, and an index.
--   pages.lua ROOT FOLDER              writes FOLDER/index.html, FOLDER/decoder.html, ...
--   pages.lua ROOT --examples FILE     writes the examples of the headers as one C file, a function each, which includes
--                                      the names that they leave out from "header_examples.h"
local files = require "files"
local header = require "header"

local style = [[
body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;color:#1f2937;background:#fff}
pre{background:#f3f4f6;padding:.7rem;overflow-x:auto;border-radius:6px}code,pre{font-size:14px}
a{color:#b45309}section{border-top:1px solid #e5e7eb;margin-top:1.5rem}h3{font-family:monospace}
dt{font-weight:600}td{vertical-align:top;padding-right:1rem}.nav{font-size:14px}
@media(prefers-color-scheme:dark){body{background:#111827;color:#e5e7eb}pre{background:#1f2937}a{color:#f59e0b}}]]

local function escape(text)
  return (text:gsub("[&<>\"]", {["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;"}))
end

-- Paragraphs of the first comment of a header: {kind = "text", "example", "block" or "terms", lines}.
local function read_head(text)
  local comment = text:match "/%* dllm/.-%*/" or ""
  local title, body = comment:match "^/%* dllm/%l+%.h %-%- (.-)\n(.*)%*/$"
  local paragraphs, open = {}, nil
  for line in ((body or "") .. "\n"):gmatch "(.-)\n" do
    line = line:gsub("^ %* ?", "", 1):gsub("%s+$", "")
    if line == "" then
      open = nil
    else
      local indented = line:match "^    " ~= nil
      local term = line:match "^%u%l+%s%s+%S" ~= nil
      if not open or (term and open.kind ~= "terms") then
        open = {kind = indented and "block" or term and "terms" or "text", lines = {}}
        paragraphs[#paragraphs + 1] = open
      end
      open.lines[#open.lines + 1] = indented and open.kind ~= "terms" and line:gsub("^    ", "") or line
      if open.kind == "block" and line:match "[;{]$" then open.kind = "example" end
      if open.kind == "block" and line:match ";%s%s+%S" then open.kind = "example" end
    end
  end
  return title, paragraphs
end

-- The words after a statement become a comment of C.
local function commented(line) return (line:gsub("^(.*;)(%s%s+)([%l%[].*)$", "%1%2/* %3 */")) end

local pages, home = {}, {} -- of all headers; the page of each name

local function linked(text)
  return (escape(text):gsub("[%a][%w_]*", function(name)
    return home[name] and string.format('<a href="%s.html#%s">%s</a>', home[name], name, name)
  end))
end

local function paragraph(part, out)
  local text = table.concat(part.lines, "\n")
  if part.kind == "example" then
    for i, line in ipairs(part.lines) do part.lines[i] = commented(line) end
    out[#out + 1] = "<pre><code>" .. linked(table.concat(part.lines, "\n")) .. "</code></pre>"
  elseif part.kind == "block" then
    out[#out + 1] = "<pre>" .. linked(text) .. "</pre>"
  elseif part.kind == "terms" then
    out[#out + 1] = "<dl>"
    for term, body in ("\n" .. text):gsub("\n(%u%l+)%s%s+", "\n\1%1\2"):gmatch "\1(%u%l+)\2([^\1]*)" do
      out[#out + 1] = string.format("<dt>%s</dt><dd>%s</dd>", term, linked((body:gsub("%s+", " "))))
    end
    out[#out + 1] = "</dl>"
  else
    out[#out + 1] = "<p>" .. linked(text) .. "</p>"
  end
end

local function prototype(fn)
  local params = {}
  for i, p in ipairs(fn.params) do params[i] = p.type .. (p.type:match "%*$" and "" or " ") .. p.name end
  local space = fn.result:match "%*$" and "" or " "
  return string.format("%s%s%s(%s);", fn.result, space, fn.name, #params > 0 and table.concat(params, ", ") or "void")
end

local function function_section(fn, out)
  local block = fn.block
  out[#out + 1] = string.format('<section id="%s"><h3>%s</h3>', fn.name, fn.name)
  out[#out + 1] = "<p>" .. linked(block.summary) .. "</p><pre><code>" .. linked(prototype(fn)) .. "</code></pre>"
  for _, part in ipairs(block.paragraphs) do
    local tag = part.kind == "table" and "pre" or "p"
    out[#out + 1] = string.format("<%s>%s</%s>", tag, linked(part.text), tag)
  end
  if #block.params > 0 then
    out[#out + 1] = "<table>"
    for _, p in ipairs(block.params) do
      out[#out + 1] = string.format("<tr><td><code>%s</code></td><td>%s</td></tr>", p.name, linked(p.text))
    end
    out[#out + 1] = "</table>"
  end
  out[#out + 1] = "<dl>"
  for _, tag in ipairs {"Deprecated", "Returns", "Owns", "Threads", "Ranks", "Since"} do
    local text = block[tag:lower()]
    if text then out[#out + 1] = string.format("<dt>%s</dt><dd>%s</dd>", tag, linked(text)) end
  end
  out[#out + 1] = "</dl></section>"
end

local function constants(page, out)
  local group
  for _, c in ipairs(page.parsed.constants) do
    if c.group ~= group then
      out[#out + 1] = (group and "</table>" or "") .. "<p>" .. linked(c.group) .. "</p><table>"
      group = c.group
    end
    out[#out + 1] = string.format('<tr id="%s"><td><code>%s</code></td><td>%d</td></tr>', c.name, c.name, c.value)
  end
  if group then out[#out + 1] = "</table>" end
end

local function document(title, out)
  return '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/><title>' .. escape(title) ..
         '</title><meta name="viewport" content="width=device-width"/><style>' .. style .. "</style></head><body>\n" ..
         table.concat(out, "\n") .. "\n</body></html>\n"
end

local function write_page(page, folder)
  local out = {'<p class="nav"><a href="index.html">dllm</a> / dllm/' .. page.noun .. ".h</p>",
               "<h1>" .. page.noun .. "</h1><p>" .. linked(page.title) .. "</p>"}
  for _, part in ipairs(page.paragraphs) do paragraph(part, out) end
  constants(page, out)
  for _, fn in ipairs(page.parsed.functions) do function_section(fn, out) end
  files.write(folder .. "/" .. page.noun .. ".html", document("dllm/" .. page.noun .. ".h", out))
end

local function write_index(folder)
  local out = {"<h1>The C interface of dllm</h1><table>"}
  for _, page in ipairs(pages) do
    local names = {}
    for i, fn in ipairs(page.parsed.functions) do names[i] = linked(fn.name) end
    out[#out + 1] = string.format('<tr><td><a href="%s.html">%s</a></td><td>%s<br/><code>%s</code></td></tr>', page.noun,
                                  page.noun, linked(page.title), table.concat(names, " "))
  end
  out[#out + 1] = "</table>"
  files.write(folder .. "/index.html", document("The C interface of dllm", out))
end

local function write_examples(path)
  local out, count = {"/* The examples of include/dllm, made by scripts/tools/pages.lua. */", '#include "header_examples.h"'}, 0
  for _, page in ipairs(pages) do
    for _, part in ipairs(page.paragraphs) do
      if part.kind == "example" then
        count = count + 1
        local body = {}
        for i, line in ipairs(part.lines) do body[i] = line == "..." and "" or commented(line) end
        local code = table.concat(body, "\n")
        if not code:match "^static" then
          code = string.format("int example_%s_%d(void);\nint example_%s_%d(void) {\n%s\nreturn 0;\n}", page.noun, count,
                               page.noun, count, code)
        end
        out[#out + 1] = string.format('#line 1 "dllm/%s.h, its example"\n%s', page.noun, code)
      end
    end
  end
  files.write(path, table.concat(out, "\n") .. "\n")
  print(count .. " examples in " .. path)
end

local root, folder, examples = arg[1], arg[2], arg[3]
for _, path in ipairs(files.list(root .. "/include", "dllm", {"h"})) do
  local text = files.read(root .. "/include/" .. path)
  local noun = path:match "dllm/(%l+)%.h"
  local title, paragraphs = read_head(text)
  local page = {noun = noun, title = title or "", paragraphs = paragraphs, parsed = header.parse(text, path)}
  pages[#pages + 1] = page
  for _, fn in ipairs(page.parsed.functions) do home[fn.name] = noun end
  for _, c in ipairs(page.parsed.constants) do home[c.name] = noun end
end
if folder == "--examples" then
  write_examples(examples)
else
  os.execute("mkdir -p " .. files.quote(folder))
  for _, page in ipairs(pages) do write_page(page, folder) end
  write_index(folder)
  print(#pages .. " pages in " .. folder)
end
