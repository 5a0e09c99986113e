"use strict";
// Shows the newest content of /body in the page. Tables that the reader opened stay open.
const page = document.getElementById("live");
const state = document.createElement("p");
state.className = "note";
page.after(state);
let shown = "";

async function update() {
  try {
    const answer = await fetch("/body", { cache: "no-store" });
    const text = await answer.text();
    if (!answer.ok) throw new Error(text);
    state.textContent = "live";
    if (text === shown) return;
    const open = [...page.querySelectorAll("figure:has(details[open])")].map((figure) => figure.id);
    page.innerHTML = text;
    for (const id of open) document.getElementById(id)?.querySelector("details")?.setAttribute("open", "");
    shown = text;
  } catch (error) {
    state.textContent = "no answer: dllm report --watch has ended";
  }
}

setInterval(update, 2000);
update();
