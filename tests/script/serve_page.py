"""The page of dllm serve in a real Chromium, with mouse, keyboard and a phone, also against a server that dies.

serve_page.py DLLM SCRATCH ENVIRONMENT

ENVIRONMENT: a folder for playwright of PyPI, which stays there. Chromium is that of the system (apt-get install chromium). Exit 77: one of them
is missing. SCRATCH gets screenshots, to be looked at."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

if not (CHROMIUM := shutil.which("chromium")):
    print("skipped: there is no chromium")
    sys.exit(77)
try:
    from playwright.sync_api import expect, sync_playwright
except ImportError:  # again with the Python of ENVIRONMENT
    if len(sys.argv) < 4:
        sys.exit(77)
    python = pathlib.Path(sys.argv[3]) / "bin/python"
    for step in ([sys.executable, "-m", "venv", sys.argv[3]], [python, "-m", "pip", "install", "--quiet", "playwright==1.65.2"]):
        if subprocess.run(step).returncode:
            sys.exit(77)
    os.execv(python, [python, "-B", *sys.argv[:3]])

from cli_options import LINES, Program  # noqa: E402
from server_process import ServerProcess  # noqa: E402

DLLM, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
program = Program(DLLM, SCRATCH)
ok = program.ok
shutil.rmtree(SCRATCH, ignore_errors=True)
SCRATCH.mkdir(parents=True)
(SCRATCH / "corpus").write_text("\n".join(LINES) + "\n")
trained = program.run("train", "--data", "corpus", "--rows", "line", "--length", "1000", "--batch", "1", "--eval-every", "0", "--examples", "0",
                      "--layers", "3", "--hidden", "128", "--vocab", "300", "--steps", "12", "--lr", "0.01", "--warmup", "0", "--out", "m")
ok(trained.returncode == 0, f"a model: {trained.stderr[-300:]}")


class Tab:
    """A page that is open in the browser. Its errors are counted."""

    def __init__(self, browser, url, **settings):
        self.context = browser.new_context(**settings)
        self.page = self.context.new_page()
        self.errors, self.asked = [], []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda message: message.type == "error" and self.errors.append(message.text))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(url)

    def at(self, name):
        return self.page.locator("#" + name)

    def state(self):
        return self.at("state").inner_text()

    def set(self, **values):
        for name, value in values.items():
            self.at(name).fill(str(value))

    def is_over(self):
        expect(self.at("stop")).to_be_disabled(timeout=60000)

    def write(self, **values):
        self.set(**values)
        self.at("start").click()
        self.is_over()

    def cells(self):
        return self.page.locator("#canvas button").all_inner_texts()

    def whole(self):
        """The text of the canvas, as "Edit as text" gives it."""
        self.at("fix").click()
        return self.at("text").input_value()

    def picture(self, name):
        self.page.screenshot(path=SCRATCH / f"{name}.png", full_page=True)

    def fits(self):
        return self.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def start():
    server = ServerProcess(DLLM, SCRATCH, "m")
    return server, f"http://127.0.0.1:{server.port}/"


server, url = start()
with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])

    # ---- write, choose, refill, insert, edit ----
    tab = Tab(browser, url, viewport={"width": 1100, "height": 800})
    tab.write(text="the cat", length=12, steps=12, seed=5, temperature=0.8)
    wanted = server.json("/v1/completions", {"prompt": "the cat", "max_tokens": 12, "seed": 5, "temperature": 0.8, "dllm": {"steps": 12}})["choices"][0]["text"]
    text = tab.whole()
    ok(text == "the cat" + wanted, f"the page wrote {text!r}, the API {wanted!r}")
    ok("seed 5" in tab.state() and "12 steps" in tab.state(), tab.state())
    tab.picture("written")
    count = len(tab.cells())
    tokens = tab.page.locator("#canvas .token:not(.end)")
    for i in (0, 2):
        tokens.nth(i).click()
    ok(tab.page.locator("#canvas .chosen").count() == 2, "two tokens are chosen")
    tab.picture("chosen")
    kept = tab.page.locator("#canvas button:not(.end)[aria-pressed=false]").all_inner_texts()
    tab.at("refill").click()
    tab.is_over()
    given = tab.page.locator("#canvas .given").all_inner_texts()
    ok("".join(given) == "".join(kept), f"the others stay: {given}, before {kept}")
    for words in (2, 20):
        before = tab.whole()
        tab.set(count=words)
        tab.page.locator("#canvas button").nth(1).click()
        place = len("".join(tab.page.locator("#canvas button").all_inner_texts()[:2]))
        tab.at("insert").click()
        tab.is_over()
        filled = tab.page.locator("#canvas .token").count()
        after = tab.whole()
        ok(0 < filled <= words and after.startswith(before[:place]) and after.endswith(before[place:]), f"{words} tokens are inserted: {filled}, {before!r} {after!r}")
    tab.write(text="a <mask:4> sat on <mask>", seed=1)
    ok(re.fullmatch("a .* sat on .*", tab.whole(), re.S) is not None, f"holes are filled: {tab.whole()!r}")
    tab.write(text="one", regex="(red|green)", length=6)
    ok(tab.whole() in ("onered", "onegreen"), f"a pattern: {tab.whole()!r}")
    tab.write(text="one", regex="(", length=6)
    ok("byte 1" in tab.state() and "error" in tab.at("state").get_attribute("class"), f"a mistake is said: {tab.state()}")

    # ---- the history stays when the page is loaded again, until it is forgotten ----
    lines = tab.page.locator("#history button").all_inner_texts()
    ok(len(lines) >= 5 and lines[0] in ("onered", "onegreen"), f"history {lines}")
    tab.page.reload()
    ok(tab.page.locator("#history button").all_inner_texts() == lines, "the history stays")
    tab.page.locator("#history button").last.click()
    ok(tab.whole() == text, "an earlier text is shown again")
    tab.at("forget").click()
    ok(tab.page.locator("#history button").count() == 0 and not tab.at("forget").is_visible(), "the history is forgotten")

    # ---- tokens have ages; stop ----
    tab.write(text="the", length=200, steps=200, seed=2, regex="")
    ages = tab.page.eval_on_selector_all("#canvas .token", "all => all.map(one => Number(one.style.getPropertyValue('--age')))")
    ok(len(set(ages)) > 1 and min(ages) == 0 and max(ages) <= 1, f"tokens have ages: {ages}")
    tab.picture("ages")
    tab.set(text="the", length=900, steps=900, seed=2, regex="")
    tab.at("start").click()
    tab.page.locator("#canvas .token").first.wait_for()
    tab.at("stop").click()
    tab.is_over()
    ok(tab.state() == "stopped" or "full" in tab.state(), tab.state())
    ok(not [error for error in tab.errors if "400" not in error], f"errors of the page: {tab.errors}")
    ok(all(one.startswith(url) for one in tab.asked), f"addresses: {set(tab.asked)}")
    tab.context.close()

    # ---- by keyboard alone ----
    tab = Tab(browser, url)
    keys = tab.page.keyboard
    expect(tab.at("text")).to_be_focused(timeout=30000)
    keys.press("Control+A")
    keys.type("who are")
    keys.press("Control+Enter")
    tab.page.locator("#canvas .token").first.wait_for()
    tab.is_over()
    reached = []
    for _ in range(60):
        keys.press("Tab")
        reached.append(tab.page.evaluate("document.activeElement.parentElement.id === 'canvas' ? 'cell' : document.activeElement.id || document.activeElement.tagName"))
        if reached[-1] == "cell":
            break
    ok(reached[-1] == "cell" and "steps" in reached and "start" in reached, f"Tab reaches {reached}")
    keys.press("Space")
    ok(tab.page.locator("#canvas .chosen").count() == 1 and tab.page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true", "Space chooses a token and keeps the focus")
    ok(not tab.errors, f"errors of the page: {tab.errors}")
    tab.context.close()

    # ---- a phone, light and dark: nothing is wider than the screen, and each setting says what it is ----
    for scheme in ("light", "dark"):
        tab = Tab(browser, url, viewport={"width": 390, "height": 844}, color_scheme=scheme, has_touch=True, is_mobile=True)
        tab.write(text="the dog " + 12 * "Donaudampfschiffahrt", length=40, seed=3)
        ok(tab.fits(), f"{scheme}: the page is as wide as the phone")
        ok(all(tab.page.locator("fieldset small").nth(i).is_visible() for i in range(8)), "each setting has its meaning")
        colours = tab.page.evaluate("[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]")
        light = [sum(map(int, re.findall(r"\d+", one)[:3])) / 765 for one in colours]
        ok(abs(light[0] - light[1]) > 0.6 and (light[1] > light[0]) == (scheme == "light"), f"{scheme}: {colours}")
        tab.page.locator("#canvas .token").first.tap()
        ok(tab.page.locator("#canvas .chosen").count() == 1, "a touch chooses a token")
        tab.picture(f"phone-{scheme}")
        tab.context.close()

    # ---- the server dies in the middle: the page says so, keeps what it has, and goes on with a new server ----
    tab = Tab(browser, url)
    tab.set(text="the", length=900, steps=900, seed=2)
    tab.at("start").click()
    tab.page.locator("#canvas .token").nth(5).wait_for()
    server.process.kill()
    tab.is_over()
    ok("error" in tab.at("state").get_attribute("class") and "server" in tab.state(), f"a dead server: {tab.state()}")
    ok(len(tab.cells()) > 100, "the canvas stays")
    tab.picture("dead")
    tab.write()
    ok("error" in tab.at("state").get_attribute("class"), f"no server: {tab.state()}")
    again = subprocess.Popen([DLLM, "serve", "m", "--port", str(server.port)], cwd=SCRATCH, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    ok(again.stdout.readline().strip().endswith("/v1"), "a new server on the port")
    tab.write(length=5, steps=5)
    ok("seed 2" in tab.state(), f"the page goes on: {tab.state()}")
    tab.context.close()
    browser.close()
    again.terminate()
    again.wait(timeout=60)
server.process.communicate(timeout=60)
sys.exit(program.failures > 0)
