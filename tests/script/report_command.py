"""dllm report: the numbers of the page are those of the metrics, pictures are well-formed, damaged records are survived.

report_command.py DLLM SCRATCH
"""
import html.parser
import http.client
import json
import pathlib
import re
import signal
import socket
import subprocess
import shutil
import sys
import xml.etree.ElementTree as ElementTree

from cli_options import LINES, Program

DLLM, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2])
program = Program(DLLM, SCRATCH)
ok = program.ok
VOID = {"meta", "br", "img", "link", "hr", "input"}
PICTURES = ["loss", "mask_ratio", "gradient_norm", "learning_rate", "throughput", "loss_parts", "predictions_1", "predictions_2", "predictions_3", "samples"]
HOSTILE = "</svg></style><script>alert(1)</script><b onload=x>&amp;\"'@BODY@\u0001\ud83d\ude00"


class Page(html.parser.HTMLParser):
    """Tags, tables of numbers, text of each figure; `balanced` where every element is closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.tables, self.figures, self.balanced = [], [], {}, {}, True
        self.figure = self.series = None
        self.feed(text)
        self.balanced = self.balanced and not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "figure":
            self.figure = dict(attributes).get("id")
            self.figures[self.figure] = ""
        if tag == "table":
            self.series = self.tables[(self.figure, dict(attributes)["data-series"])] = []

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        self.balanced = self.balanced and bool(self.open) and self.open.pop() == tag

    def handle_data(self, data):
        if self.figure:
            self.figures[self.figure] += data
        if self.open and self.open[-1] == "td":
            self.series.append(float(data))


def report(run, *words):
    done = program.run("report", run, "--svg", f"{run}_pictures", "--json", *words)
    if done.returncode != 0:
        return None, None, done
    line = json.loads(done.stdout)
    return Page((SCRATCH / line["page"]).read_text()), line, done


def pairs(numbers):
    return list(zip(numbers[::2], numbers[1::2]))


def write(run, metrics, examples=None, start=None):
    folder = SCRATCH / run
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.jsonl").write_bytes(metrics if isinstance(metrics, bytes) else metrics.encode("utf-8", "surrogatepass"))
    if examples is not None:
        (folder / "examples.jsonl").write_bytes(examples.encode("utf-8", "surrogatepass"))
    if start is not None:
        (folder / "run.json").write_text(start)


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def close(a, b):
    return abs(a - b) <= 1e-5 * max(abs(a), abs(b), 1e-30)


def same(drawn, recorded):
    return len(drawn) == len(recorded) and all(x == step and close(y, value) for (x, y), (step, value) in zip(drawn, recorded))


def real_run():
    """A run of dllm train: every number that was recorded is on the page."""
    (SCRATCH / "corpus").write_text("\n".join(LINES * 3) + "\n")
    train = ["train", "--data", "corpus", "--out", "real", "--rows", "line", "--layers", "1", "--hidden", "64", "--vocab", "300",
             "--length", "32", "--batch", "8", "--lr", "0.005", "--eval-every", "10", "--eval-batches", "2", "--save-every", "25"]
    done = program.run(*train, "--steps", "40")
    ok(done.returncode == 0, f"a run: {done.stderr[-300:] if done.returncode else ''}")
    page, line, done = report("real")
    ok(page is not None and line["bad_lines"] == 0 and line["examples"] == 4, f"a report of it: {done.stderr[-300:]} {line}")
    if page is None:
        return
    events = [json.loads(row) for row in (SCRATCH / "real/metrics.jsonl").read_text().splitlines()]
    steps = [event for event in events if event["event"] == "train_step"]
    for figure, series, key in (("loss", "training batches", "loss"), ("gradient_norm", "Gradient norm", "grad_norm"),
                                ("learning_rate", "Learning rate", "lr"), ("throughput", "Throughput", "tokens_per_second")):
        ok(same(pairs(page.tables[(figure, series)]), [(e["step"], e[key]) for e in steps]), f"{figure}: the numbers of the metrics")
    held_out = [(e["step"], e["loss"]) for e in events if e["event"] == "eval"]
    ok(same(pairs(page.tables[("loss", "held out")]), held_out), "held-out losses: the numbers of the metrics")
    examples = [json.loads(row) for row in (SCRATCH / "real/examples.jsonl").read_text().splitlines()]
    ok([row["step"] for row in examples] == [10, 20, 30, 40], f"a line of examples at each held-out loss: {[row['step'] for row in examples]}")
    last = examples[-1]
    ok(0.2 < sum(last["share"]) / len(last["share"]) < 0.8 and max(last["share"]) > 0.85 and all(v > 0 for v in last["loss"]),
       "shares cover the range, losses are positive")
    ok(all(row["share"] == last["share"] for row in examples), "the same noise every time")
    ok(last["share"] and sum(examples[0]["loss"]) > sum(last["loss"]), "the loss of examples falls")
    drawn = pairs(page.tables[("mask_ratio", "step 40")])
    ok(close(sum(x for x, _ in drawn[:1]), sum(s for s in last["share"] if s < 0.125) / max(1, sum(s < 0.125 for s in last["share"]))) or
       min(last["share"]) >= 0.125, "mask ratio: the first mean is that of its rows")
    strip = last["strips"][0]
    ok(len(strip["texts"]) == len(strip["guesses"]) == len(strip["states"]) == 32, "a strip has a token for each position")
    for text, guess, state in zip(strip["texts"], strip["guesses"], strip["states"]):
        if state == 0 and text != guess or state == 2 and text != guess:
            ok(False, f"state {state} of {text!r}, predicted {guess!r}")
    ok(f"of {len(strip['texts'])} tokens hidden" in page.figures["predictions_1"], "the strip names its hidden tokens")
    hidden = sum(state != 0 for state in strip["states"])
    svg = (SCRATCH / "real_pictures/predictions_1.svg").read_text()
    kinds = re.findall(r'<rect class="(hidden|right|wrong)"', svg)
    ok(kinds.count("hidden") == hidden + 1, f"hidden tokens are drawn ({kinds.count('hidden')} of {hidden}, and the key)")
    ok(kinds.count("right") + kinds.count("wrong") == 4 * hidden + 2, "each step has a prediction of each hidden token")
    ok([pathlib.Path(path).stem for path in line["pictures"]] == PICTURES, f"pictures: {line['pictures']}")
    curve = ElementTree.parse(SCRATCH / "real_pictures/learning_rate.svg").getroot().find(".//{*}polyline[@class='line line-a']")
    points = [tuple(map(float, point.split(","))) for point in curve.get("points").split()]
    rates = [e["lr"] for e in steps]
    highest, lowest = rates.index(max(rates)), rates.index(min(rates))
    ok(len(points) == 40 and points[highest][1] == min(p[1] for p in points), "the curve has a point for each step, the highest on top")
    scale = (points[lowest][1] - points[highest][1]) / ((rates[highest] - rates[lowest]) or 1)
    ok(all(abs(points[lowest][1] - p[1] - (r - rates[lowest]) * scale) < 0.02 for p, r in zip(points, rates)), "heights are proportional to numbers")
    resumed(train, examples)


def resumed(train, before):
    """Lines of steps that a run went back over are dropped."""
    import shutil
    for name in ("step_000040",):
        shutil.rmtree(SCRATCH / "real" / name)
    done = program.run(*train, "--steps", "30")
    after = [json.loads(row) for row in (SCRATCH / "real/examples.jsonl").read_text().splitlines()]
    ok(done.returncode == 0 and [row["step"] for row in after] == [10, 20, 30], f"resumed at 25: {[row['step'] for row in after]}")
    ok(after[2]["loss"] == before[2]["loss"] and after[2]["sample"] == before[2]["sample"], "the same examples again")
    done = program.run(*train, "--steps", "5", "--fresh", "--examples", "0")
    ok(done.returncode == 0 and not (SCRATCH / "real/examples.jsonl").exists(), "--examples 0 --fresh leaves none")
    page, line, _ = report("real")
    ok(page is not None and "--examples is 0" in page.figures["mask_ratio"] and "predictions_1" not in page.figures, "a sentence in place of pictures")


def whole(name, page, line, done, bad_lines=0, bad_numbers=0):
    """What holds of every page: well-formed, one file, no script, no address."""
    ok(page is not None, f"{name}: a page {done.stderr[-200:] if page is None else ''}")
    if page is None:
        return
    text = (SCRATCH / line["page"]).read_text()
    ok(page.balanced, f"{name}: elements are closed")
    ok(not any(tag == "script" or any(key.startswith("on") or key in ("src", "href") for key in found) for tag, found in page.tags),
       f"{name}: no script, no link")
    ok("http" not in re.sub(r'xmlns="[^"]*"', "", text) and "url(" not in text and "@import" not in text, f"{name}: no address")
    ok(not re.search(r"\b(nan|inf)\b", re.sub(r"<text.*?</text>|<title>.*?</title>|<h1>.*?</h1>", "", text)), f"{name}: no nan in numbers")
    ok((line["bad_lines"], line["bad_numbers"]) == (bad_lines, bad_numbers), f"{name}: bad lines and numbers {line['bad_lines']}, {line['bad_numbers']}")
    for path in line["pictures"]:
        root = ElementTree.parse(SCRATCH / path).getroot()
        left, top, width, height = map(float, root.get("viewBox").split())
        places = [float(v) for e in root.iter() for k, v in e.attrib.items() if k in ("x", "x1", "x2", "cx")]
        places += [float(v.split(",")[0]) for e in root.iter() for v in (e.get("points") or "").split()]
        ok(all(-60 < v < width + 60 for v in places), f"{name}: {path} is inside of its frame")


def step(number, loss=2.0, **more):
    return {"event": "train_step", "step": number, "loss": loss, "grad_norm": 1.0, "lr": 0.001, "tokens": 8 * number, "tokens_per_second": 100.0, **more}


def strip(text="a", state=2):
    return {"texts": [text] * 3, "guesses": [text] * 3, "states": [0, state, state]}


def hostile():
    long = lines(step(i, 5 - i / 5000) for i in range(1, 20001))
    cases = {
        "one": (lines([step(1)]), None, 0, 0),
        "cut": (lines([step(1), step(2)]) + '{"event":"train_step","step":3,"lo', '{"step": 1, "sha', 0, 0),
        "nothing_finite_later": (lines([step(1), step(2, None), step(3, None)]), None, 0, 2),
        "nan_word": (lines([step(1)]) + '{"event":"train_step","step":2,"loss":NaN}\n', None, 1, 0),
        "huge": (lines([step(1), step(2, 1e300), step(3, -1e300), step(4, 1e29), step(5, -1e29)]), None, 0, 2),
        "tiny": (lines([step(1, 1e-300), step(2, 1e-12)]), None, 0, 0),
        "negative": (lines([step(i, -i) for i in range(1, 30)]), None, 0, 0),
        "wrong_types": (lines([step(1), step(2, "x"), {"event": 5}, {"event": "train_step", "step": "x"}, [], 7,
                               {"event": "train_step", "step": -1}, {"event": "eval", "step": 2**63}]), None, 6, 1),
        "bytes": (b"\xff\xfe\x00garbage\n" + lines([step(1), step(2)]).encode() + b"\x00\x01\x02\n", None, 2, 0),
        "long_line": (lines([step(1)]) + "x" * (5 << 20) + "\n" + lines([step(2)]), None, 1, 0),
        "deep": (lines([step(1)]) + "[" * 100000 + "\n", None, 1, 0),
        "long": (long, None, 0, 0),
        "backwards": (lines([step(1), step(5), step(3, 7.0), step(4)]), None, 0, 0),
        "texts": (lines([step(1), step(2)]), lines([
            {"step": 1, "objective": HOSTILE, "share": [0.2, 0.7], "loss": [1, 2], "right": [0, 1], "strips": [strip(HOSTILE), strip(" "), strip("")],
             "sample": HOSTILE * 30},
            {"step": 2, "share": [2, -1, 0.5], "loss": [1, 2, None], "right": [0, 1, 0], "strips": [strip(HOSTILE, 1)], "sample": "猫" * 400}]), 0, 1),
        "bad_examples": (lines([step(1)]), lines([
            {"step": 1, "share": 1, "loss": []}, {"step": 2, "strips": [{"texts": ["a"], "guesses": [], "states": []}]},
            {"step": 3, "strips": [{"texts": ["a"], "guesses": ["a"], "states": [9]}]}, {"step": 4, "strips": "x"},
            {"step": 5, "no_sample": HOSTILE, "no_predictions": HOSTILE}]), 4, 0),
    }
    for name, (metrics, examples, bad_lines, bad_numbers) in cases.items():
        write(name, metrics, examples, start=json.dumps({"objective": HOSTILE, "layers": 2, "hidden": 64, "vocab": -3}) if name == "texts" else "{cut")
        page, line, done = report(name)
        whole(name, page, line, done, bad_lines, bad_numbers)
        if page and name == "long":
            drawn = pairs(page.tables[("loss", "training batches")])
            ok(len(drawn) <= 300 and drawn[-1][0] == 20000, f"long: {len(drawn)} points, the last step is there")
            width = 20000 // len(drawn)
            ok(all(close(y, 5 - (x - (x - (drawn[i - 1][0] if i else 0) - 1) / 2) / 5000) for i, (x, y) in enumerate(drawn)),
               f"long: each point is the mean of its {width} steps")
            ok((SCRATCH / line["page"]).stat().st_size < 1 << 20, "long: the page stays small")
        if page and name == "backwards":
            ok(pairs(page.tables[("loss", "training batches")]) == [(1, 2), (3, 7), (4, 2)], "backwards: later steps are replaced")
        if page and name == "cut":
            ok("was cut" in (SCRATCH / line["page"]).read_text(), "cut: the page mentions it")
        if page and name == "texts":
            ok("alert(1)" in page.figures["samples"], "texts: the sample is text")
    for name, words in {"nowhere": "no file", "empty": "no loss", "folder": "no file"}.items():
        if name != "nowhere":
            write(name, "" if name == "empty" else "x")
        if name == "folder":
            (SCRATCH / "folder/metrics.jsonl").unlink()
            (SCRATCH / "folder/metrics.jsonl").mkdir()
        _, _, done = report(name)
        ok(done.returncode == 1 and words in done.stderr, f"{name}: refused ({done.stderr.splitlines()[:1]})")
    done = program.run("report", "one", "--out", "nowhere/page.html")
    ok(done.returncode == 1 and "cannot write nowhere/page.html" in done.stderr, "a page that cannot be written")
    for name, content, code in (("data.txt", "my data\n", 1), ("index.html", "<!DOCTYPE html>\n<html lang=\"en\">\n", 1), ("empty.html", "", 0)):
        (SCRATCH / name).write_text(content)
        for turn in range(2):  # a page of its own is replaced
            done = program.run("report", "one", "--out", name)
            ok(done.returncode == code, f"--out {name}, turn {turn}: {done.stderr[-200:]}")
        ok(code == 0 or ((SCRATCH / name).read_text() == content and "not a page of dllm report" in done.stderr), f"{name} stays: {done.stderr}")
    done = program.run("report", "one/metrics.jsonl", "--out", "elsewhere.html")
    ok(done.returncode == 0 and (SCRATCH / "elsewhere.html").exists(), "a file of metrics, a page elsewhere")


def compared():
    """Several runs on one page: all curves, the last numbers, and the settings that differ."""
    losses = {"a": [3, 2, 1.5], "b": [3, 2.5, 2.4], "sub/a": [4, 3, 2]}
    for i, (name, values) in enumerate(losses.items()):
        rows = [{"event": "train_step", "step": step, "loss": value, "lr": 0.1, "tokens_per_second": 100 * (i + 1)} for step, value in enumerate(values, 1)]
        write(name, lines(rows + [{"event": "eval", "step": 3, "loss": values[-1] + 1}]),
              start=json.dumps({"layers": 2, "settings": {"trainer.lr": i, "data": {"path": HOSTILE if i == 1 else "x", "rows": 5}},
                                "given": {"options": {"trainer": {"steps": 3}}}}))
    done = program.run("report", "a", "b", "sub/a/", "--json", "--svg", "three", "--out", "three.html")
    ok(done.returncode == 0, f"three runs: {done.stderr[-300:]}")
    text = (SCRATCH / "three.html").read_text()
    for name, values in losses.items():
        ok(re.search(rf'data-series="([^"]*/)?{re.escape(name)}"', text) is not None, f"a curve of {name}")
    ok(text.count("<script") == 0 and "alert(1)" not in re.sub(r"&lt;script&gt;alert", "", text), "a setting is text")
    settings = text.split('id="settings"')[1].split("</section>")[0]
    ok("trainer.lr" in settings and "data.path" in settings and "layers" not in settings and "data.rows" not in settings and
       "trainer.steps" not in settings, f"settings that differ, and no others: {settings[:300]}")
    numbers = text.split('id="numbers"')[1].split("</section>")[0]
    ok(re.search(r'class="best">2\.5<', numbers) and re.search(r'class="best">300<', numbers), f"the best numbers are marked: {numbers[:400]}")
    line = json.loads(done.stdout)
    ok([run["run"] for run in line["runs"]] == ["a", "b", "sub/a/"] and len(line["pictures"]) == 4, f"--json: {line}")
    for path in line["pictures"]:
        ElementTree.parse(SCRATCH / path)
    done = program.run("report", "a", "nowhere")
    ok(done.returncode == 1 and "nowhere" in done.stderr, f"a run that is not there is named: {done.stderr}")
    done = program.run("report", *["a"] * 30, "--out", "thirty.html")
    ok(done.returncode == 0, f"thirty runs: {done.stderr[-200:]}")


class Watching:
    """dllm report --watch while a with statement lasts."""

    def __init__(self, *words):
        self.words = words

    def __enter__(self):
        self.process = subprocess.Popen([DLLM, "report", "--watch", *self.words], cwd=SCRATCH, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.address = self.process.stdout.readline().strip()
        return self

    def get(self, path, method="GET", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", int(self.address.rstrip("/").rsplit(":", 1)[1]), timeout=20)
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self.said = self.process.communicate(timeout=20)[1]


def watched():
    """--watch serves the page on this machine alone, and it follows the run."""
    for port in ("65536", "-1"):
        done = program.run("report", "a", "--watch", "--port", port)
        ok(done.returncode == 2 and port in done.stderr, f"port {port} is refused: {done.stderr}")
    write("grows", "")
    with Watching("grows") as one:
        if not one.address:
            ok("libevent" in one.process.stderr.read(), "a build without a server names the package")
            return
    with Watching("grows") as one:
        port = one.address.rstrip("/").rsplit(":", 1)[1]
        ok(one.address.startswith("http://127.0.0.1:"), f"the address is printed: {one.address}")
        status, page, answer = one.get("/")
        ok(status == 200 and "/live.js" in page and "default-src 'none'" in answer.getheader("Content-Security-Policy"), "the page")
        ok("nothing to draw yet" in one.get("/body")[1], "a run without a step has a sentence")
        rows = [{"event": "train_step", "step": step, "loss": 5 - step} for step in (1, 2, 3)]
        write("grows", lines(rows))
        body = one.get("/body")[1]
        ok('data-series="training batches"' in body and "<html" not in body, "the body has the curves after the first steps")
        write("grows", lines(rows + [{"event": "train_step", "step": 4, "loss": 0.0625}]))
        ok("0.0625" in one.get("/body")[1], "and the next step")
        ok(one.get("/nowhere")[0] == 404 and one.get("/../../etc/passwd")[0] == 404 and one.get("/%00")[0] == 404, "no other path is served")
        ok(one.get("/body", "HEAD")[:2] == (200, ""), "HEAD")
        for method in ("POST", "PUT", "DELETE"):
            ok(one.get("/body", method)[0] == 405, f"{method} is refused")
        for host in ("evil.example", f"evil.example:{port}", f"127.0.0.1.evil.example:{port}", "localhost.evil.example", "[::1].evil.example", "127.0.0.1:x", ""):
            ok(one.get("/body", Host=host)[0] in (400, 403), f"Host {host!r} is refused")
        for host in (f"LOCALHOST:{port}", "localhost", "127.0.0.1:1", "[::1]:9000"):
            ok(one.get("/body", Host=host)[0] == 200, f"Host {host}, also through a tunnel")
        ok(one.get("/body", Origin="http://evil.example")[0] == 403, "a page of another origin is refused")
        for raw in (b"\0\xff\r\n\r\n", b"GET " + b"a" * 100000 + b" HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 5000 + b"\r\n"):
            with socket.create_connection(("127.0.0.1", int(port)), timeout=20) as client:
                try:  # the server may have closed it already
                    client.sendall(raw)
                    client.shutdown(socket.SHUT_WR)
                    client.recv(65536)
                except OSError:
                    pass
        ok(one.get("/body")[0] == 200, "the server goes on after requests that are none")
        taken = program.run("report", "--watch", "a", "--port", port)
        ok(taken.returncode == 1 and port in taken.stderr, f"a port in use is named: {taken.stderr}")
        addresses = pathlib.Path(f"/proc/{one.process.pid}/net/tcp").read_text()
        ok(f"0100007F:{int(port):04X}" in addresses and f"00000000:{int(port):04X}" not in addresses, "it listens on 127.0.0.1 alone")
    ok(one.process.returncode == 130, f"Ctrl-C ends it: {one.process.returncode} {one.said}")
    with Watching("a", "b") as two:
        ok('id="settings"' in two.get("/body")[1], "several runs are compared")
    done = program.run("report", "a", "--watch", "--out", "x.html")
    ok(done.returncode == 2 and "--out" in done.stderr, "--watch with --out is refused")
    ok("--port" in program.run("report", "a", "--port", "3").stderr, "--port needs --watch")


def latent_run():
    """A model of several parts: its numbers, its times and its parts are drawn, and dllm inspect lists them."""
    done = program.run("train", "--from", "real", "--objective", "ldlm", "--objective.positions", "32", "--data", "corpus", "--rows", "line", "--out", "latent",
                       "--steps", "40", "--length", "32", "--batch", "4", "--lr", "0.001", "--eval-every", "0")
    ok(done.returncode == 0, f"a latent run: {done.stderr[-300:] if done.returncode else ''}")
    page, line, done = report("latent")
    whole("latent", page, line, done)
    if page is None:
        return
    steps = [event for event in map(json.loads, (SCRATCH / "latent/metrics.jsonl").read_text().splitlines()) if event["event"] == "train_step"]
    for figure, series, key in (("loss_parts", "diffusion", "diffusion"), ("loss_parts", "token_nll", "token_nll"), ("metric_latent", "latent_norm", "latent_norm"),
                                ("metric_cosine", "Cosine of the prediction", "cosine"), ("metric_snr", "SNR of the prediction", "snr")):
        ok(same(pairs(page.tables.get((figure, series), [])), [(e["step"], e[key]) for e in steps]), f"{figure}: {key} of the metrics")
    ok(all(before["tokens"] < after["tokens"] for before, after in zip(steps, steps[1:])) and isinstance(steps[0]["tokens"], int), "tokens stay the tokens of all steps")
    profiles = [e for e in steps if "time_rows" in e]
    ok([e["step"] for e in profiles] == [20, 40] and all(sum(e["time_rows"]) == 4 * e["step"] for e in profiles), "rows by time, every 20 steps")
    drawn = pairs(page.tables[("metric_time_losses", "step 40")])
    ok(len(drawn) == sum(value is not None for value in profiles[-1]["time_losses"]), f"losses by time: {len(drawn)}")
    rows = profiles[-1]["time_rows"]
    ok(all(close(y, count * len(rows) / sum(rows)) or y == count == 0 for (_, y), count in zip(pairs(page.tables[("metric_time_histogram", "rows so far")]), rows)),
       "the histogram of the times")
    tower = (SCRATCH / "latent_pictures/tower.svg").read_text()
    ok(tower.count("<g>") == 5 and tower.count('class="flow"') == 4, f"five parts, four arrows: {tower.count('<g>')}, {tower.count('class=')}")
    parts = {part["name"]: part for part in json.loads(program.run("inspect", "latent", "--json").stdout)["parts"]}
    ok(parts["denoiser"]["reads"] == ["encoder"] and parts["denoiser"]["trained"] and not parts["base"]["trained"], f"inspect --json: {parts}")
    said = program.run("inspect", "latent").stdout
    ok(re.search(r"encoder +dllm_tower, 1 layer of 64, [0-9.]+ M, trained, reads base, makes 64 vectors", said) is not None, f"inspect: {said[:900]}")


def folder_of_runs():
    """A folder of runs, as dllm sweep makes, names how its runs are drawn."""
    (SCRATCH / "sweep").mkdir()
    shutil.copytree(SCRATCH / "a", SCRATCH / "sweep/a")
    done = program.run("report", "sweep")
    ok(done.returncode == 2 and "dllm report sweep/*/" in done.stderr, f"a folder of runs: {done.stderr}")


program.empty_folder()
real_run()
hostile()
compared()
folder_of_runs()
latent_run()
watched()
sys.exit(1 if program.failures else 0)
