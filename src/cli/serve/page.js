"use strict";
// Shows a text while a model writes it, and lets the reader choose tokens that are written again.
const at = (id) => document.getElementById(id);
const MASKED = 0, FIXED = 3;
const AGES = 8, KEPT = 50;  // steps until a token is old, texts of the history
let cells = [];  // {text, state, confidence, written, isEnd, isChosen}; written: the step that wrote it; isEnd: it has no text
let step = 0;  // the last one
let isBegun = false;  // whether the canvas is of the request that runs
let fillsHoles = false;  // whether that request has holes in place of a length
let running = null;  // the AbortController of the request

function say(text, isError = false) {
  at("state").textContent = text;
  at("state").classList.toggle("error", isError);
}

function draw() {
  const box = at("canvas");
  box.replaceChildren(...cells.map((cell, index) => {
    const token = document.createElement("button");
    token.type = "button";
    const isOpen = cell.state === MASKED;
    token.className = cell.state === FIXED ? "given" : isOpen ? "open" : "token";
    token.classList.toggle("end", Boolean(cell.isEnd));
    token.classList.toggle("chosen", Boolean(cell.isChosen));
    token.style.setProperty("--p", cell.confidence);
    token.style.setProperty("--age", Math.min(1, (step - cell.written) / AGES));
    token.textContent = isOpen ? "·" : cell.isEndToken ? "∎" : cell.text;
    token.title = isOpen ? "open" : cell.state === FIXED ? "given" : `${(100 * cell.confidence).toFixed(1)} %, step ${cell.written}`;
    token.setAttribute("aria-pressed", String(Boolean(cell.isChosen)));
    token.disabled = running !== null;
    token.addEventListener("click", () => choose(index));
    return token;
  }));
  allow();
}

// Steps may come faster than a browser draws them. The next picture shows the last one.
let willDraw = false;
function drawSoon() {
  if (willDraw) return;
  willDraw = true;
  requestAnimationFrame(() => { willDraw = false; draw(); });
}

// A character may have several tokens. Its first cell has the text, and they are chosen together.
function choose(index) {
  const isPart = (i) => i > 0 && i < cells.length && cells[i].text === "" && cells[i].state !== MASKED;
  let first = index, last = index;
  while (isPart(first)) first--;
  while (isPart(last + 1)) last++;
  const isChosen = !cells[index].isChosen;
  for (let i = first; i <= last; i++) cells[i].isChosen = isChosen;
  draw();
  at("canvas").children[index].focus();
}

function allow() {
  const isIdle = running === null, isChosen = cells.some((cell) => cell.isChosen);
  at("start").disabled = !isIdle;
  at("stop").disabled = isIdle;
  at("refill").disabled = at("insert").disabled = !isIdle || !isChosen;
  at("fix").disabled = !isIdle || cells.length === 0;
}

function take(canvas) {
  const before = isBegun ? cells : [];
  isBegun = true;
  step = canvas.step;
  let isOver = false;
  cells = canvas.cells.map((text, i) => {
    const state = canvas.states[i];
    const isOld = before[i]?.text === text && before[i].state !== MASKED;
    const isEndToken = state !== MASKED && state !== FIXED && canvas.end_tokens.includes(canvas.ids[i]);
    isOver ||= isEndToken && !fillsHoles;
    return { text, state, confidence: canvas.confidence[i], written: isOld ? before[i].written : step, isEndToken,
      isEnd: isEndToken || (isOver && state !== FIXED) };
  });
  say(`step ${canvas.step}, ${canvas.open} open`);
  drawSoon();
}

// The settings of the form, for the field "dllm".
function settings() {
  const own = { canvas: true };
  if (at("steps").value) own.steps = Number(at("steps").value);
  if (at("block").value) own.block_length = Number(at("block").value);
  if (at("policy").value) own.policy = at("policy").value.trim();
  if (at("regex").value) own.regex = at("regex").value;
  return own;
}

// The events of a stream, one after the other.
async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const lines = Object.fromEntries(part.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]));
      if (lines.data !== "[DONE]") yield { name: lines.event, data: JSON.parse(lines.data) };
    }
  }
}

// One model is a name, several are a choice.
async function showModels() {
  const answer = await fetch("/v1/models", { headers: key() }).catch(() => null);
  if (!answer?.ok) return;
  const names = (await answer.json()).data.map((model) => model.id);
  const choice = at("models");
  choice.replaceChildren(...names.map((name) => new Option(name, name)));
  choice.hidden = names.length < 2;
  at("model").textContent = names.length === 1 ? names[0] : "";
}

async function write(text) {
  const hasHoles = fillsHoles = /<mask(:\d+)?>/.test(text);
  const body = { stream: true, temperature: Number(at("temperature").value || 0), dllm: settings() };
  if (at("models").value) body.model = at("models").value;
  if (at("top").value) body.top_p = Number(at("top").value);
  if (at("seed").value) body.seed = Number(at("seed").value);
  if (hasHoles) body.text = text;
  else Object.assign(body, { prompt: text, max_tokens: Number(at("length").value || 48) });
  isBegun = false;
  running = new AbortController();
  say("waits for a slot");
  allow();
  let end = null;
  try {
    const answer = await fetch(hasHoles ? "/v1/infill" : "/v1/completions", {
      method: "POST", body: JSON.stringify(body), signal: running.signal, headers: key() });
    if (answer.status === 401) askForKey();
    if (!answer.ok) throw new Error(messageOf(answer.status, await answer.text()));
    for await (const { name, data } of events(answer)) {
      if (data.error) throw new Error(data.error.message);
      if (name === "canvas") take(data);
      else end = data.choices?.[0]?.dllm ?? end;
    }
    if (end === null) throw new Error("the server ended in the middle of the answer");
    say(`${end.finish.replace("_", " ")}, seed ${end.seed}, ${end.steps} steps, ${end.nfe} evaluations, ${end.seconds.toFixed(2)} s, policy ${end.policy}`);
    remember();
  } catch (error) {
    if (error.name === "AbortError") say("stopped");
    else say(error instanceof TypeError ? "no answer: the server has ended" : error.message, true);
  }
  running = null;
  draw();
}

// Some answers are not of the API: a text that is too long, a proxy without its server.
function messageOf(status, text) {
  try {
    return JSON.parse(text).error.message;
  } catch {
    return status === 413 ? "the text is longer than the server takes (--max-body)" : `the server answers with status ${status}`;
  }
}

function askForKey() {
  const given = prompt("The server asks for a key. Write again after it.") || "";
  sessionStorage.setItem("key", given.replace(/[^\x21-\x7e]/g, ""));  // a header takes no other characters
  showModels();
}

function key() {
  const held = sessionStorage.getItem("key");
  return held ? { Authorization: `Bearer ${held}` } : {};
}

const textOf = (some) => some.map((cell) => (cell.isEnd ? "" : cell.state === MASKED ? "<mask>" : cell.text)).join("");
const whole = () => textOf(cells);

// The text with holes in place of the chosen tokens, and holes after the last chosen one.
function withHoles(insert) {
  const last = cells.findLastIndex((cell) => cell.isChosen);
  return cells.map((cell, i) => {
    const isHole = (cell.state === MASKED && !cell.isEnd) || (cell.isChosen && insert === 0);
    return (isHole ? "<mask>" : cell.isEnd ? "" : cell.text) + (i === last && insert > 0 ? `<mask:${insert}>` : "");
  }).join("");
}

// The history is a list of canvases, newest first. It stays while the tab is open.
function keptTexts() {
  try {
    return JSON.parse(sessionStorage.getItem("history")) ?? [];
  } catch {
    return [];
  }
}

function remember() {
  const kept = [cells.map((cell) => ({ ...cell, isChosen: false })), ...keptTexts()].slice(0, KEPT);
  while (kept.length > 0) {
    try {
      sessionStorage.setItem("history", JSON.stringify(kept));
      break;
    } catch {
      kept.pop();  // the browser has no room for all of them
    }
  }
  showHistory();
}

function showHistory() {
  const texts = keptTexts();
  at("history").replaceChildren(...texts.map((kept) => {
    const line = document.createElement("li"), again = document.createElement("button");
    again.type = "button";
    again.textContent = textOf(kept).replace(/\s+/g, " ").slice(0, 200);
    again.addEventListener("click", () => {
      if (running !== null) return;
      cells = kept;
      step = Math.max(0, ...cells.map((cell) => cell.written)) + AGES;
      draw();
    });
    line.append(again);
    return line;
  }));
  at("forget").hidden = texts.length === 0;
}

at("form").addEventListener("submit", (event) => { event.preventDefault(); write(at("text").value); });
at("stop").addEventListener("click", () => running?.abort());
at("refill").addEventListener("click", () => write(withHoles(0)));
at("insert").addEventListener("click", () => write(withHoles(Number(at("count").value || 1))));
at("fix").addEventListener("click", () => { at("text").value = whole(); at("text").focus(); });
at("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) at("form").requestSubmit();
});
at("forget").addEventListener("click", () => { sessionStorage.removeItem("history"); showHistory(); });
showModels();
showHistory();
draw();
