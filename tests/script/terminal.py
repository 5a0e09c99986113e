"""The program in a pseudo terminal: prompt, completion, live view, replay; and verify on damaged files.

terminal.py DLLM SCRATCH EDITING    EDITING: 1 when the program was built with libedit
"""
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import fcntl
import termios
import time

DLLM, SCRATCH, EDITING = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3] == "1"
SECONDS = 60
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r")
failures = 0


def ok(condition, what):
    global failures
    print(("ok   " if condition else "FAIL ") + what, flush=True)
    failures += not condition


def is_utf8(data):
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


class Terminal:
    """A program in a terminal of 80 x 24; `seen` is all it wrote."""

    def __init__(self, *words, columns=80, rows=24, **extra):
        env = dict(os.environ, TERM="xterm", LC_ALL="C.UTF-8", HOME=str(SCRATCH), XDG_STATE_HOME=str(SCRATCH / "state"))
        env.pop("NO_COLOR", None)
        env.update(extra)
        self.seen, self.read = "", b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(SCRATCH)
            os.execve(DLLM, [DLLM, *words], env)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def more(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # the other end is closed
            data = b""
        self.read += data
        self.seen = self.read.decode("utf-8", "replace")
        return bool(data)

    def until(self, text, after=0):
        """Reads until `text` comes behind `after`, escape sequences left out; where it ends."""
        end = time.monotonic() + SECONDS
        while text not in self.plain()[after:]:
            if time.monotonic() > end or not self.more(SECONDS):
                raise SystemExit(f"FAIL {text!r} did not come; seen:\n{self.plain()[after:]}")
        return self.plain().index(text, after) + len(text)

    def plain(self):
        return ESCAPES.sub("", self.seen)

    def type(self, text):
        os.write(self.fd, text.encode())

    def key(self, text):
        """Types when the prompt takes keys: it is printed before the terminal stops editing lines by itself."""
        end = time.monotonic() + SECONDS
        while EDITING and termios.tcgetattr(self.fd)[3] & termios.ICANON and time.monotonic() < end:
            time.sleep(0.01)
        self.type(text)

    def end(self):
        end = time.monotonic() + SECONDS
        while self.more(max(end - time.monotonic(), 0)):
            pass
        if time.monotonic() >= end:
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


def run(*words, **more):
    return subprocess.run([DLLM, *words], cwd=SCRATCH, text=True, capture_output=True, timeout=SECONDS, **more)


def train():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    (SCRATCH / "corpus.txt").write_text("".join(f"the {a} sat by the {b}: naïve 東京\n" for a in "cat dog bird moon".split()
                                                for b in "sea tree night wind house".split()))
    words = ("train --data corpus.txt --rows line --out run --steps 8 --layers 1 --hidden 64 --vocab 300 --length 32 "
             "--batch 4 --loader.epochs 0 --eval-every 0").split()
    done = run(*words)
    ok(done.returncode == 0, "a tiny model is trained")
    print(done.stderr)


def prompt():
    t = Terminal("repl")
    at = t.until("dllm> ")
    t.type("1 + 41\n")
    at = t.until("42\ndllm> ", at)
    t.type("for i = 1, 2 do\n")
    at = t.until(" ...> ", at)
    t.type("print('row', i) end\n")
    at = t.until("2\n", t.until("1\n", t.until("print('row', i) end\n", at)))
    t.type("nothing.here()\n")
    at = t.until("attempt to index a nil value", at)
    t.type("'still ' .. 'there: 東京'\n")
    at = t.until('"still there: 東京"\n', at)
    t.type(":options slot\n")
    at = t.until("seed", at)
    t.type(":nonsense\n")
    at = t.until('there is no command named "nonsense"', at)
    if EDITING:
        completion(t, at)
    # A running chunk is stopped by Ctrl-C and the prompt comes back.
    at = len(t.plain())
    t.type("print('be' .. 'gun') while true do end\n")
    at = t.until("begun\n", at)
    time.sleep(0.2)
    t.type("\x03")
    at = t.until("dllm> ", t.until("cancelled", at))
    t.type("6 * 7\n")
    at = t.until("42\n", at)
    t.until("dllm> ", at)
    t.key("\x04")
    ok(t.end() == 0, "Ctrl-D leaves with 0")
    print(t.plain())
    ok(True, "prompt, several lines, errors, Ctrl-C, Ctrl-D")


def control_characters():
    """A text moves no cursor and sets no title. A pipe gets it as it is."""
    nasty = "a\x1b]0;title\x07b\u202ec\td"
    t = Terminal("generate", "run", nasty, "--length", "2", "--seed", "1")
    ok(t.end() == 0, "generate in a terminal")
    ok(not any(part in t.seen for part in ("\x1b]0", "\x07", "\u202e")) and "\u241b]0;title\u2407b\ufffdc\td" in t.seen, f"no control characters: {t.seen!r}")
    ok(run("generate", "run", nasty, "--length", "2", "--seed", "1").stdout.startswith(nasty), "a pipe has all characters")


def completion(t, at):
    t.key("dllm.decod\t")
    at = t.until("dllm.decoder(", at)
    t.type("nil, { gen_l\t")
    at = t.until("gen_length = ", at)
    t.type("1, poli\t")
    at = t.until("policy = ", at)
    t.type('"low\t')
    at = t.until('"low_confidence"', at)
    t.key("\x03")  # gives the line up
    at = t.until("dllm> ", t.until("^C", at))
    t.key("dllm.tra\t")  # ambiguous: as far as all agree
    at = t.until("dllm.train", at)
    t.type("\t")  # and then what there is
    at = t.until("dllm.train_tokenizer(", at)
    t.type("\x15:gen\t")
    at = t.until(":generate ", at)
    t.type("--decoder.gen\t")
    t.until("--decoder.gen", at)
    t.key("\x03")
    at = t.until("dllm> ", t.until("^C", at))
    t.key("\x1b[A\n")  # the last line that was entered
    t.until('there is no command named "nonsense"', at)
    ok(True, "completion and history")


def history():
    if not EDITING:
        return
    ok("1 + 41" in (SCRATCH / "state/dllm/repl_history").read_text().replace("\\040", " "), "lines are kept in a file")
    t = Terminal("repl", "--history", "none")
    t.until("dllm> ")
    t.type(":quit\n")
    ok(t.end() == 0, ":quit leaves with 0")


def piped():
    done = run("repl", input="x = 6\nx * 7\nfor i = 1, 2 do\nprint(i)\nend\n")
    ok(done.returncode == 0 and done.stdout == "42\n1\n2\n", "piped lines run without a prompt")
    done = run("repl", input="error('no')\n1\n")
    ok(done.returncode == 1 and done.stdout == "1\n" and "no" in done.stderr, "an error does not end it, and sets the exit code")
    ok(run("repl", input="for i = 1, 2 do\n").returncode == 1, "a chunk without an end fails")


GENERATE = "generate --model run --prompt the --length 24 --steps 6 --slot.seed 3".split()


def live_view():
    t = Terminal(*GENERATE, "--trace", "trace.jsonl", columns=50)
    ok(t.end() == 0, "generate ends well")
    ok("\x1b[33m" in t.seen or "\x1b[32m" in t.seen or "\x1b[36m" in t.seen, "decided tokens have a colour")
    ok("░" in t.seen and "confidence" in t.seen and "evaluations" in t.seen, "open positions and figures are shown")
    ok(is_utf8(t.read) and "step 6" in t.seen, "never half a character")
    ok("step 6/6" in t.seen, "the step has the number of steps")
    last = t.seen[t.seen.rindex("\x1b[J"):]
    ok("evaluations" not in last and "the" in last, "the picture goes, the text stands there once")
    plain = Terminal(*GENERATE, NO_COLOR="1")
    ok(plain.end() == 0 and not re.search(r"\x1b\[[0-9]*m", plain.seen), "NO_COLOR has no colours")
    dumb = Terminal(*GENERATE, TERM="dumb")
    ok(dumb.end() == 0 and "\x1b" not in dumb.seen, "TERM=dumb has no escape sequence")
    done = run(*GENERATE)
    ok(done.returncode == 0 and "\x1b" not in done.stdout + done.stderr and "step" not in done.stderr, "a pipe gets the text alone")


def replay():
    header = json.loads((SCRATCH / "trace.jsonl").read_text().splitlines()[0])
    ok(header["model"] == "run" and header["tokens"], "a trace begins with the texts of its tokens")
    shutil.rmtree(SCRATCH / "moved", ignore_errors=True)
    (SCRATCH / "run").rename(SCRATCH / "moved")  # a replay needs no model
    t = Terminal("replay", "trace.jsonl", "--delay", "1")
    ok(t.end() == 0 and "step 6" in t.seen and "\x1b[" in t.seen, "replay in a terminal")
    done = run("replay", "trace.jsonl")
    ok(done.returncode == 0 and "\x1b" not in done.stdout and done.stdout.count("step ") == 7, "replay in a pipe: a line a step")
    done = run("replay", "trace.jsonl", "--html", "r.html", "--svg", "r.svg", "--json")
    ok(done.returncode == 0 and json.loads(done.stdout)["slots"][0]["steps"] == 6, "pictures and a summary")
    ok((SCRATCH / "r.html").read_text().startswith("<!DOCTYPE html>"), "a page")
    ok((SCRATCH / "r.svg").read_text().startswith("<svg "), "a heat map")
    (SCRATCH / "bad.jsonl").write_text('{"slot": 0}\n')
    done = run("replay", "bad.jsonl")
    ok(done.returncode == 1 and "bad.jsonl:1: the line has no whole number" in done.stderr, "a bad line is named")
    done = run("replay", "trace.jsonl", "--slot", "7")
    ok(done.returncode == 1 and "has no slot 7" in done.stderr, "a slot that is not there")
    (SCRATCH / "moved").rename(SCRATCH / "run")


def verdicts(path):
    done = run("verify", path, "--json")
    report = json.loads(done.stdout)
    ok(report["ok"] == (done.returncode == 0), f"exit code {done.returncode} agrees with the report")
    return done.returncode, {c["check"]: (c["verdict"], c["detail"]) for c in report["checks"]}


def verify():
    code, checks = verdicts("run")
    print(run("verify", "run").stdout)
    ok(code == 0 and checks["numbers"][0] == "ok" and checks["tokenizer"][0] == "ok" and checks["shapes"][0] == "ok", "a whole run")
    step = next((SCRATCH / "run").glob("step_*"))
    weights = next((step / "model").glob("*.safetensors"))
    name = f"{step.name}/model/{weights.name}"
    whole = weights.read_bytes()

    weights.write_bytes(whole[:-4])
    code, checks = verdicts("run")
    ok(code == 1 and checks[name][0] == "bad" and f"{len(whole)} expected" in checks[name][1], "a file that was cut")
    weights.write_bytes(whole[:-4] + struct.pack("<f", float("nan")))
    code, checks = verdicts("run")
    bad = {check: text for check, (verdict, text) in checks.items() if verdict == "bad"}
    ok(code == 1 and "crc32" in bad[name], "a file whose content changed")
    ok(any("1 NaN" in text for text in bad.values()), "a number that is none")
    weights.write_bytes(whole)

    config = step / "model" / "config.json"
    before = config.read_text()
    values = json.loads(before)
    values["intermediate_size"] += 32
    config.write_text(json.dumps(values))
    code, checks = verdicts(str(step / "model"))
    ok(code == 1 and checks["shapes"][0] == "bad", "shapes that the config does not want")
    config.write_text("{")
    ok(verdicts(str(step / "model"))[0] == 1, "a config that is no JSON")
    config.write_text(before)

    commit = step / "COMMIT"
    text = commit.read_text()
    commit.write_text(text[:20])
    code, checks = verdicts(str(step))
    ok(code == 1 and checks[f"{step.name}/COMMIT"][0] == "bad", "a COMMIT that is no JSON")
    commit.write_text(text)
    (step / "more").write_text("x")
    code, checks = verdicts("run")
    ok(code == 0 and checks[f"{step.name}/more"][0] == "note", "a file COMMIT does not name")
    ok(run("verify", "nowhere").returncode == 1, "a path that is not there")


signal.alarm(10 * SECONDS)
train()
for part in (prompt, control_characters, history, piped, live_view, replay, verify):
    part()
sys.exit(1 if failures else 0)
