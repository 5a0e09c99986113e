"""A second start of dllm train, signals that come twice, and messages of other commands.   run_again.py DLLM SCRATCH"""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time

from cli_options import LINES, Program
from parquet_writer import parquet

DLLM, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2])
program = Program(DLLM, SCRATCH)
ok = program.ok
SMALL = ["--layers", "2", "--hidden", "64", "--vocab", "300", "--length", "32", "--batch", "4", "--eval-every", "0", "--examples", "0"]


def train(*words, code=0):
    done = program.run("train", "--data", "corpus", "--rows", "line", *words)
    ok(done.returncode == code, f"train {' '.join(words)}: exit {done.returncode} {done.stderr[-300:] if done.returncode != code else ''}")
    return done.stderr


def seeds():
    """--seed goes on by the same command, from a model too; --model.seed of a model with weights is refused."""
    train(*SMALL, "--out", "seeded", "--steps", "2", "--seed", "3")
    ok("resumed" in train(*SMALL, "--out", "seeded", "--steps", "4", "--seed", "3"), "--seed: the same command resumes")
    short = ["--length", "32", "--batch", "4", "--eval-every", "0", "--examples", "0"]
    train(*short, "--from", "seeded", "--out", "tuned", "--steps", "2", "--seed", "5")
    train(*short, "--from", "seeded", "--out", "tuned", "--steps", "3", "--seed", "5")
    for out, tokenizer, warns in (("same", "tuned/tokenizer.json", False), ("foreign", "foreign.json", True)):
        if warns:
            (SCRATCH / "digits").write_text("0123456789 9876543210\n" * 50)
            program.run("tokenizer-train", "--data", "digits", "--vocab", "270", "--out", tokenizer)
        said = train(*short, "--from", "seeded", "--tokenizer", tokenizer, "--out", out, "--steps", "1")
        ok(("is not the one of --from" in said) == warns, f"--tokenizer {tokenizer}: {said[-300:]}")
    said = train(*short, "--from", "seeded", "--out", "other", "--steps", "2", "--model.seed", "5", code=2)
    ok("--model.seed" in said, f"--model.seed is named: {said}")


def differences():
    """What differs from the last start is one line; the same command has none."""
    own = [*SMALL, "--out", "run", "--lr", "0.001"]
    train(*own, "--steps", "2")
    ok("differs" not in train(*own, "--steps", "3"), "the same command: no line")
    (SCRATCH / "second").write_text("\n".join(LINES[:60]) + "\n")
    at = 3
    for words, named in ((["--lr", "0.002"], "trainer.lr 0.002 (was 0.001)"), (["--batch", "2"], "loader.batch 2 (was 4)"),
                         (["--length", "16"], "loader.length"), (["--loader.seed", "9"], "loader.seed 9"),
                         (["--rows", "file"], "dataset.rows"), (["--data", "second"], "data ")):
        at += 1
        said = train(*own, "--steps", str(at), *words)
        lines = [line for line in said.splitlines() if line.startswith("differs from the last start: ")]
        ok(len(lines) == 1 and named in lines[0], f"{words}: {lines}")
        at += 1
        train(*own, "--steps", str(at))  # back again, which differs too


def answers():
    """Bits per byte of rows with prompts count the bytes of answers; held-out rows without any token to learn have no loss."""
    (SCRATCH / "sums.jsonl").write_text("".join(json.dumps({"prompt": f"What is {i % 9} plus {i % 7}, if you please?", "response": f"{i % 9 + i % 7}"})
                                                + "\n" for i in range(200)))
    own = ["--data", "sums.jsonl", "--pack", "false", *SMALL]
    program.run("train", *own, "--out", "sums", "--steps", "4")
    event = [json.loads(line) for line in (SCRATCH / "sums" / "metrics.jsonl").read_text().splitlines()]
    held = [row for row in event if "bits_per_byte" in row][-1]
    whole = json.loads(program.run("eval", "sums", "sums.jsonl", "--limit", "0", "--json").stdout)
    per_byte = held["loss"] / held["bits_per_byte"] * (whole["bits_per_byte"] / whole["nats_per_token"])
    ok(0.8 < per_byte < 1.25, f"train and eval count the same bytes: {per_byte} {held} {whole}")
    (SCRATCH / "long.jsonl").write_text("".join(json.dumps({"prompt": "word " * 100, "response": "a"}) + "\n" for i in range(60)))
    said = program.run("train", "--data", "long.jsonl", "--pack", "false", "--out", "long", "--steps", "2", *SMALL).stderr
    ok("held-out loss 0.0000" not in said, f"no loss of nothing: {said[-300:]}")


def fresh_is_safe():
    """--fresh removes the old run after everything that may fail, and takes the run's own weights."""
    train(*SMALL, "--out", "again", "--steps", "2")
    before = sorted((SCRATCH / "again").rglob("*.safetensors"))
    for words in (["--trainer.groups", "*nomatch* lr=1"], ["--trainer.schedule", "inverse_sqrt", "--warmup", "0"], ["--data", "nowhere"]):
        done = program.run("train", "--data", "corpus", "--rows", "line", *SMALL, "--out", "again", "--steps", "2", "--fresh", *words)
        ok(done.returncode != 0 and sorted((SCRATCH / "again").rglob("*.safetensors")) == before, f"{words}: the run stays {done.stderr[-200:]}")
    files = lambda: {str(path): path.read_bytes() for path in sorted((SCRATCH / "again").rglob("*")) if path.is_file()}
    program.run("train", "--out", "again", "--steps", "3", "--log", "csv,tensorboard")
    before = files()
    done = program.run("train", "--data", "corpus", "--rows", "line", *SMALL, "--out", "nothing", "--steps", "0")
    ok(done.returncode == 2 and "--steps 0 trains nothing" in done.stderr, f"--steps 0: {done.returncode} {done.stderr[-300:]}")
    for words, said in ((["--objective", "bd3lm"], "block length"), (["--length", "2000", "--from", "seeded"], "2000")): # in the first step
        done = program.run("train", "--data", "corpus", "--rows", "line", *(SMALL if "--from" not in words else []), "--batch", "4", "--out", "again",
                           "--steps", "2", "--fresh", *words)
        ok(done.returncode != 0 and said in done.stderr, f"{words} fails in the first step: {done.stderr[-300:]}")
        ok(files() == before and "the run before again" in done.stderr, f"{words}: the run stays as it was {sorted(files())}")
    (SCRATCH / "again/replaced").mkdir() # as a start leaves it that was killed before its first step
    for name in ("run.json", "step_000003", "metrics.jsonl"):
        (SCRATCH / "again" / name).rename(SCRATCH / "again/replaced" / name)
    done = program.run("train", "--out", "again", "--steps", "3")
    ok(done.returncode == 0 and "has the run again" in done.stderr and (SCRATCH / "again/step_000003/COMMIT").exists(),
       f"a killed --fresh leaves the old run: {done.stderr[-300:]}")
    short = ["--length", "32", "--batch", "4", "--eval-every", "0", "--examples", "0"]
    said = train(*short, "--out", "again", "--steps", "1", "--fresh", "--from", "again")
    ok(not (SCRATCH / "again/replaced").exists() and not (SCRATCH / "again/metrics.csv").exists(), "after the first step the old run is gone")
    ok("resumed" not in said and not list((SCRATCH / "again").glob("step_000002")), f"from its own weights: {said[-200:]}")


def kept():
    """A start without settings has those of the start before it; --data of the same content is no difference."""
    own = ["--layers", "2", "--hidden", "64", "--vocab", "300", "--length", "32", "--batch", "4", "--eval-every", "0", "--examples", "0",
           "--objective", "bd3lm", "--objective.block-length", "8", "--lr", "0.002", "--clip", "0.5"]
    train(*own, "--out", "keeps", "--steps", "2", "--seed", "7")
    first = json.loads((SCRATCH / "keeps/run.json").read_text())

    def goes_on(*words, code=0):
        done = program.run("train", "--out", "keeps", *words)
        ok(done.returncode == code, f"train --out keeps {words}: {done.returncode} {done.stderr[-300:]}")
        return done.stderr
    said = goes_on("--steps", "3")
    for part in ("data ", "objective bd3lm", "objective.block-length 8", "trainer.lr 0.002", "loader.batch 4", "trainer.seed 7"):
        ok(part in said.split("kept from the last start: ")[-1].splitlines()[0], f"kept: {part}")
    ok("differs" not in said, f"nothing differs: {said[-300:]}")
    now = json.loads((SCRATCH / "keeps/run.json").read_text())
    ok(now["settings"] == first["settings"], "the settings are those of the first start")
    ok("3 steps already" in goes_on(), "without a limit the steps of the last start count")
    record = (SCRATCH / "keeps/run.json").read_text()
    (SCRATCH / "short").write_text("another text\n" * 40)
    said = goes_on("--steps", "2", "--lr", "1", "--data", "short")
    ok("3 steps already" in said and (SCRATCH / "keeps/run.json").read_text() == record, f"a start that trains nothing changes nothing: {said[-300:]}")
    for words in (["--objective", "mdlm"], ["--optimizer", "lion"]):
        said = goes_on("--steps", "9", *words, code=2)
        ok("which keeps was started with" in said and "--fresh" in said, f"{words}: {said[-300:]}")
    said = goes_on("--tokens", "2000", "--lr", "0.004")
    ok("differs from the last start: trainer.lr 0.004 (was 0.002)" in said and "larger --tokens continues" in said, f"a new limit replaces --steps: {said[-300:]}")
    ok("trainer.lr 0.004" in goes_on("--steps", "502"), "the last value is kept")
    (SCRATCH / "copy").write_bytes((SCRATCH / "corpus").read_bytes())
    ok("differs" not in goes_on("--steps", "503", "--data", "copy"), "the same data under another name")
    with (SCRATCH / "copy").open("a") as file:
        file.write("one more line\n")
    said = goes_on("--steps", "504")
    ok("differs from the last start: data " in said and "121 rows" in said, f"a longer file is named: {said[-300:]}")
    ok("--seed 8 differs from 7" in goes_on("--steps", "505", "--seed", "8", code=2), "another seed is refused by name")
    ok("--data is missing" in program.run("train", "--out", "nothing").stderr, "a new run needs --data")
    ok("--trainer.seed 8 differs from 7" in goes_on("--steps", "505", "--trainer.seed", "8", code=2), "under the name that was typed")
    text = (SCRATCH / "copy").read_text()
    (SCRATCH / "copy").write_text(text.replace("cat", "cow", 1))
    said = goes_on("--steps", "505")
    ok("copy (121 rows, " in said and "whose content has changed" in said and "was " not in said.split("differs from the last start: ")[-1].splitlines()[0],
       f"other content of the same size is named: {said[-400:]}")
    for text, named in (("", "is empty"), ("{", "is not JSON"), ("[]", "does not have the data"), ('{"given": 5}', "does not have the data")):
        (SCRATCH / "keeps/run.json").write_text(text)
        said = goes_on("--steps", "503", code=1)
        ok("keeps/run.json " + named in said and "--fresh" in said, f"a damaged run.json is named: {said}")
    for text in ("", "[]", '{"given": 5, "settings": [1]}', '{"given": {"arguments": {"data": 3}, "options": {"trainer": 4, "engine": {"kind": "x"}}}}'):
        (SCRATCH / "keeps/run.json").write_text(text)
        done = program.run("train", "--out", "keeps", "--data", "corpus", "--rows", "line", "--objective", "bd3lm", "--objective.block-length", "8",
                           "--seed", "7", "--length", "32", "--batch", "4", "--eval-every", "0", "--steps", "503")
        ok(done.returncode in (0, 1, 2) and "json.exception" not in done.stderr, f"run.json {text!r}: {done.returncode} {done.stderr[-200:]}")


def finished():
    """A run that has what a limit allows says so, adds nothing to its metrics, and names the way on."""
    def same(out, *words, says):
        before = (SCRATCH / out / "metrics.jsonl").read_text()
        done = program.run("train", "--out", out, *words)
        ok(done.returncode == 0 and says in done.stderr and "--fresh starts over" in done.stderr, f"{out} {words}: {done.returncode} {done.stderr[-300:]}")
        ok((SCRATCH / out / "metrics.jsonl").read_text() == before, f"{out} {words}: no event is repeated")
        end = json.loads(program.run("train", "--out", out, *words, "--json").stdout.splitlines()[-1])
        ok(end["event"] == "end" and end["reason"] in ("steps", "budget"), f"{out} {words}: {end}")
    said = train(*SMALL, "--out", "counted", "--tokens", "2000")
    ok("a larger --tokens continues" in said, f"--tokens is used up: {said[-300:]}")
    same("counted", says="tokens already: --tokens ")
    same("counted", "--tokens", "1000", says="tokens already: --tokens ")
    ok("resumed" in train(*SMALL, "--out", "counted", "--tokens", "4000"), "more tokens continue")
    train(*SMALL, "--out", "passes", "--epochs", "2")
    same("passes", says="without --epochs, --steps")
    same("passes", "--epochs", "1", says="has read more rows than --epochs 1: a larger --epochs continues")
    same("passes", "--epochs", "1", "--batch", "2", says="has read more rows than --epochs 1")
    ok("makes 74 steps" in train(*SMALL, "--out", "passes", "--epochs", "4"), "more epochs continue: the last batch of the second has 2 rows")


def metrics_of(out):
    """The steps of a run, and its held-out losses by step."""
    events = [json.loads(line) for line in (SCRATCH / out / "metrics.jsonl").read_text().splitlines()]
    return [e for e in events if e["event"] == "train_step"], {e["step"]: e["loss"] for e in events if e["event"] == "eval"}


def limits():
    """The schedule ends where the limit ends the run, whichever of the limits it is and after a change of the limit."""
    cosine = [*SMALL, "--trainer.schedule", "cosine", "--lr", "0.001"]
    for out, words in (("l_steps", ["--steps", "30"]), ("l_tokens", ["--tokens", "4000"]), ("l_epochs", ["--epochs", "1"])):
        train(*cosine, "--out", out, *words)
        steps, _ = metrics_of(out)
        ok(steps[-1]["lr"] < 0.05 * 0.001 < 0.5 * 0.001 < max(s["lr"] for s in steps), f"{words}: the last rates are {[s['lr'] for s in steps[-3:]]}")
    steps, _ = metrics_of("l_tokens")
    ok(steps[-2]["tokens"] < 4000 <= steps[-1]["tokens"], f"--tokens ends the run: {steps[-1]['tokens']}")
    said = train(*SMALL, "--out", "l_long", "--tokens", "70000", "--layers", "1")
    steps, _ = metrics_of("l_long")
    ok(steps[-1]["tokens"] >= 70000 and len(steps) > 500, f"no other limit than --tokens: {len(steps)} steps, {steps[-1]['tokens']} tokens")
    ok("100 %" in said, f"the percentage follows the tokens: {said[-500:]}")
    said = program.run("train", "--out", "l_long", "--tokens", "70000").stderr
    ok("tokens already: --tokens" in said and "--steps" not in said, f"finished: {said[-300:]}")
    for words, is_end in ((["--tokens", "9000"], lambda s: s["tokens"] >= 9000), (["--steps", "90"], lambda s: s["step"] == 90),
                          (["--tokens", "15000"], lambda s: s["tokens"] >= 15000), (["--epochs", "12"], lambda s: True)):
        done = program.run("train", "--out", "l_epochs", *words)
        steps, _ = metrics_of("l_epochs")
        ok(done.returncode == 0 and is_end(steps[-1]) and not is_end(steps[-2]) or words[0] == "--epochs", f"{words}: {steps[-1]} {done.stderr[-300:]}")
        ok(steps[-1]["lr"] < 0.1 * 0.001, f"{words} after another limit: the last rate is {steps[-1]['lr']}")
    train(*SMALL[:-4], "--eval-every", "0.25", "--examples", "0", "--out", "l_parts", "--tokens", "4000")
    ok(len(metrics_of("l_parts")[1]) == 4, f"--eval-every 0.25 of --tokens: {metrics_of('l_parts')[1]}")
    train(*cosine, "--out", "l_warm", "--tokens", "4000", "--warmup", "5")
    rates = [s["lr"] / 0.001 for s in metrics_of("l_warm")[0]]
    ok(abs(rates[1] - 0.4) < 0.01 and max(rates) > 0.8 and rates[-1] < 0.05, f"--warmup counts updates of --tokens: {rates}")


def other_batches():
    """The rest of --epochs counts from the rows that were read, whatever the batches before had."""
    one = len(metrics_of("l_epochs")[0]) and train(*SMALL, "--out", "b_one", "--epochs", "1") and len(metrics_of("b_one")[0])

    def more(out, expected, *words):
        done = program.run("train", "--out", out, "--trainer.schedule", "cosine", *words)
        steps, _ = metrics_of(out)
        ok(done.returncode == 0 and abs(len(steps) - expected) <= 3, f"{out} {words}: {len(steps)} steps, expected {expected}: {done.stderr[-300:]}")
        ok(steps[-1]["lr"] < 0.2 * max(s["lr"] for s in steps), f"{out} {words}: the schedule ends at {steps[-1]['lr']}")
    for name, words, share in (("batch", ["--batch", "8"], 0.5), ("small", ["--batch", "2"], 2), ("accumulate", ["--accumulate", "2"], 0.5),
                               ("length", ["--length", "64"], 0.5), ("short", ["--length", "16"], 2)):
        train(*SMALL, "--out", f"b_{name}", "--epochs", "1")
        more(f"b_{name}", one + one * share, "--epochs", "2", *words)
        more(f"b_{name}", one + 2 * one * share, "--epochs", "3")
        said = program.run("train", "--out", f"b_{name}", "--epochs", "3").stderr
        ok("steps already" in said, f"b_{name} is finished: {said[-300:]}")


def later_logs():
    """A sink that a later start adds says where it begins."""
    train(*SMALL, "--out", "logged", "--steps", "2")
    said = train(*SMALL, "--out", "logged", "--steps", "4", "--log", "csv,tensorboard")
    for name in ("metrics.csv", "tensorboard"):
        ok(f"logged/{name} begins after step 2: logged/metrics.jsonl has the steps before" in said, f"{name}: {said[-500:]}")
    steps = [line.split(",")[0] for line in (SCRATCH / "logged/metrics.csv").read_text().splitlines()[1:]]
    ok(steps == ["3", "4", "4"], f"two steps and a held-out loss: {steps}")
    ok("begins after" not in train(*SMALL, "--out", "logged", "--steps", "6"), "once")


def links():
    """A later start reads a link under its own name, whose ending says what it is, and the parts of a mixture by full paths."""
    for folder in ("blobs", "snap"):
        (SCRATCH / folder).mkdir()
    (SCRATCH / "blobs/0f").write_text("text\n" + "".join(f'"{line}"\n' for line in LINES))
    (SCRATCH / "snap/t.csv").symlink_to("../blobs/0f")
    here = SCRATCH.resolve()
    for out, data, full in (("linked", "snap/t.csv", f"{here}/snap/t.csv"),
                            ("mixed", "corpus[:90%]*0.5+snap/t.csv", f"{here}/corpus[:90%]*0.5+{here}/snap/t.csv")):
        first = program.run("train", "--data", data, *SMALL, "--out", out, "--steps", "2")
        ok(first.returncode == 0, f"{data}: {first.stderr[-300:]}")
        again = program.run("train", "--out", out, "--steps", "3")
        ok(again.returncode == 0 and full in again.stderr and "differs" not in again.stderr, f"{data} again: {again.stderr[-400:]}")


def best():
    """The checkpoint of the lowest held-out loss stays, --patience ends a run, and a second start goes on from both."""
    own = ["--layers", "2", "--hidden", "64", "--vocab", "300", "--length", "32", "--batch", "4", "--examples", "0", "--eval-every", "5"]
    said = train(*own, "--out", "rises", "--steps", "400", "--lr", "0.5", "--clip", "0", "--warmup", "0", "--patience", "2")
    ok("--patience" in said and "held-out losses were not below" in said, f"--patience ends the run: {said[-400:]}")
    losses = {}
    for line in (SCRATCH / "rises/metrics.jsonl").read_text().splitlines():
        event = json.loads(line)
        if event["event"] == "eval":
            losses[event["step"]] = event["loss"]
    lowest = min(losses, key=losses.get)
    ok(list(losses)[-1] == lowest + 10, f"two losses after the lowest: {losses}")
    ok([p.name for p in (SCRATCH / "rises/best").iterdir()] == [f"step_{lowest:06d}"], "its checkpoint is the only one in best")
    ok(program.run("generate", "rises/best", "line", "--length", "4").returncode == 0, "generate RUN/best")
    ok(program.run("verify", "rises/best").returncode == 0, "verify RUN/best")
    ok("stopped at step" in program.run("train", "--out", "rises").stderr, "the same command adds no step")
    said = program.run("train", "--out", "rises", "--patience", "3").stderr
    ok(f"were not below the loss of step {lowest}" in said, f"the lowest loss counts after a resume: {said[-300:]}")
    train(*own, "--out", "rises", "--steps", "5", "--fresh", "--keep-best", "0")
    ok(not (SCRATCH / "rises/best").exists(), "--fresh removes best, --keep-best 0 makes none")
    stale = SCRATCH / "stale/best/step_000900"
    for steps in ("5", "10"): # a start without a checkpoint, and a run that went back to an earlier one
        stale.mkdir(parents=True)
        (stale / "COMMIT").write_text("{}")
        train(*own, "--out", "stale", "--steps", steps)
        ok(not stale.exists() and len(list(stale.parent.iterdir())) == 1, f"best has no later step: {list(stale.parent.iterdir())}")
    done = program.run("train", "--data", "corpus", "--rows", "line", *own, "--out", "slow", "--steps", "5", "--patience", "1", "--eval-batches", "0")
    ok(done.returncode == 2 and "--patience" in done.stderr, f"--patience needs held-out losses: {done.stderr[-200:]}")


def several_best():
    """best has the checkpoints of the N lowest losses, also where a later one was no record, and after a second start."""
    own = ["--layers", "1", "--hidden", "64", "--vocab", "300", "--length", "32", "--batch", "4", "--examples", "0", "--eval-every", "3"]
    train(*own, "--out", "several", "--steps", "30", "--lr", "0.03", "--keep-best", "3")
    for steps in ("30", "45"):
        program.run("train", "--out", "several", "--steps", steps)
        _, losses = metrics_of("several")
        lowest = sorted(losses, key=losses.get)[:3]
        kept = sorted(int(p.name[5:]) for p in (SCRATCH / "several/best").iterdir())
        ok(kept == sorted(lowest), f"the three lowest of {losses}: {kept}")
    ok(program.run("generate", f"several/best/step_{lowest[0]:06d}", "line", "--length", "4").returncode == 0, "generate RUN/best/STEP")


def by_clock():
    """--eval-every below 1 is a part of --minutes where the steps are not known."""
    own = [*SMALL[:-4], "--eval-every", "0.2", "--examples", "0"]
    train(*own, "--out", "clock", "--minutes", "0.04")
    count = (SCRATCH / "clock/metrics.jsonl").read_text().count('"event":"eval"')
    ok(count >= 2, f"held-out losses by the clock: {count}")


def clock_goes_on():
    """--minutes and its schedule count the minutes before a resume; a finished run says so, and larger minutes continue."""
    own = [*SMALL, "--trainer.schedule", "cosine", "--lr", "0.001", "--warmup", "0"]
    rates = lambda: [json.loads(line)["lr"] for line in (SCRATCH / "half/metrics.jsonl").read_text().splitlines() if "train_step" in line]
    minutes = lambda: json.loads(max((SCRATCH / "half").glob("step_*/trainer.json")).read_text())["run_seconds"] / 60
    words = [DLLM, "train", "--data", "corpus", "--rows", "line", *own, "--out", "half", "--minutes", "0.1"]
    process = subprocess.Popen(words, cwd=SCRATCH, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    metrics = SCRATCH / "half/metrics.jsonl"
    while process.poll() is None and (not metrics.exists() or metrics.stat().st_size == 0):
        time.sleep(0.05)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    before, used = rates(), minutes()
    ok(process.returncode == 130 and 0.02 < used < 0.1, f"interrupted after {used} minutes: {process.returncode}")
    begin = time.monotonic()
    said = program.run("train", "--out", "half").stderr
    took = (time.monotonic() - begin) / 60
    after = rates()[len(before):]
    ok("budget is used up" in said and "larger --minutes" in said, f"the rest of the minutes: {said[-300:]}")
    ok(took < 0.1 and 0.1 <= minutes() < 0.14, f"the second start took {took:.3f} minutes, the run {minutes():.3f}")
    ok(after and after[0] < before[-1] * 1.02 < 0.00099, f"the schedule goes on: {before[-1]} then {after[:1]}")
    count = len(rates())
    again = program.run("train", "--out", "half")
    ok(again.returncode == 0 and "minutes already" in again.stderr and len(rates()) == count, f"a finished run: {again.stderr[-300:]}")
    more = program.run("train", "--out", "half", "--minutes", "0.15")
    ok(more.returncode == 0 and len(rates()) > count and minutes() >= 0.15, f"larger --minutes: {more.stderr[-300:]}")


def rows_of_any_length():
    """A new model has a position for each token of --length; --truncate drop says what it leaves out."""
    own = ["--layers", "1", "--hidden", "64", "--vocab", "300", "--batch", "2", "--eval-every", "0", "--examples", "0", "--steps", "1"]
    train(*own, "--out", "long", "--length", "2048")
    about = json.loads(program.run("inspect", "long", "--json").stdout)["model"]
    ok(about["max_length"] == 2048, f"--length 2048: {about}")
    for objective, more in (("bd3lm", ["--block-length", "4"]), ("diffusion_gemma", []), ("editflow", []), ("ar", [])):
        train(*own, "--out", f"long_{objective}", "--length", "1200", "--objective", objective, *more)
    (SCRATCH / "lengths").write_text("\n".join("a cat" if i % 3 else line for i, line in enumerate(LINES)) + "\n")
    for length, code, said in (("12", 0, f"of {len(LINES)} rows are longer than 12 tokens and are left out"), ("1", 1, "all of its")):
        done = program.run("train", "--data", "lengths", "--rows", "line", *own, "--out", "dropped", "--fresh", "--length", length, "--pack", "false",
                           "--truncate", "drop", "--split", "all")
        ok(done.returncode == code and said in done.stderr, f"--truncate drop, --length {length}: {done.stderr[-500:]}")


def rates_of_budgets():
    """A run by --tokens has the rates of a run by --steps of its updates, in which the first one and the peak are not lost."""
    def rates(out):
        lines = [json.loads(line) for line in (SCRATCH / out / "metrics.jsonl").read_text().splitlines() if '"lr"' in line]
        return [line["lr"] for line in lines if line.get("event") == "train_step"]
    # Batches without padding: the end of an epoch would be a short one.
    (SCRATCH / "much").write_text("\n".join(LINES * 8) + "\n")
    own = ["--data", "much", "--layers", "1", "--hidden", "64", "--vocab", "300", "--length", "32", "--batch", "2", "--eval-every", "0", "--examples", "0", "--lr", "1e-3"]
    for schedule in ("cosine", "linear", "wsd"):
        for name, words in (("given", ["--warmup", "5"]), ("usual", [])):
            wanted = ["--trainer.schedule", schedule, *words]
            train(*own, *wanted, "--out", f"steps_{schedule}_{name}", "--steps", "40")
            train(*own, *wanted, "--out", f"tokens_{schedule}_{name}", "--tokens", str(40 * 2 * 32))
            first, second = rates(f"steps_{schedule}_{name}"), rates(f"tokens_{schedule}_{name}")
            ok(len(first) == len(second) == 40 and all(abs(x - y) < 1e-9 for x, y in zip(first, second)) and abs(max(second) - 1e-3) < 1e-9,
               f"{schedule}, {name} warm-up: {first[:7]} {second[:7]}")


def parts_of_budgets():
    """--save-every below 1 is a part of --tokens too, and the seconds of a step include the step."""
    train(*SMALL, "--out", "parts", "--tokens", "4000", "--save-every", "0.25", "--keep-last", "10")
    lines = [json.loads(line) for line in (SCRATCH / "parts" / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if line["event"] == "train_step"]
    saved = sorted(int(folder.name[5:]) for folder in (SCRATCH / "parts").glob("step_*"))
    used = [steps[step - 1]["tokens"] / 4000 for step in saved]
    ok(len(saved) == 4 and all(abs(share - part) < 0.15 for share, part in zip(used, (0.25, 0.5, 0.75, 1))), f"checkpoints at {used} of the tokens")
    ok(steps[0]["run_seconds"] >= steps[0]["tokens"] / steps[0]["tokens_per_second"], f"the first step: {steps[0]}")


def all_held_out():
    done = program.run("train", "--data", "corpus", "--rows", "line", *SMALL, "--out", "held", "--steps", "1", "--split-fraction", "1")
    ok(done.returncode == 2 and "holds out every row" in done.stderr, f"--split-fraction 1: {done.stderr[-300:]}")


def padding_is_a_row():
    """An option that trains padding needs rows with padding, and gets them."""
    own = ["--layers", "1", "--hidden", "64", "--vocab", "300", "--length", "48", "--batch", "2", "--eval-every", "0", "--examples", "0", "--steps", "2"]
    for objective, words in (("llada_sft", ["--answer-padding", "true"]), ("dmax", ["--tail-labels", "4", "--block-length", "4"])):
        train(*own, "--objective", objective, *words, "--out", f"padded_{objective}")
        shares = [json.loads(line).get("padding_share", 0) for line in (SCRATCH / f"padded_{objective}" / "metrics.jsonl").read_text().splitlines()]
        ok(max(shares) > 0.05, f"{objective}: shares of padding {shares}")
        said = train(*own, "--objective", objective, *words, "--pack", "true", "--out", f"packed_{objective}")
        ok("packed rows have hardly any padding" in said, f"{objective}, packed: {said[-300:]}")


def few_held_out_rows():
    """The error of a held-out loss counts a row once, however often it comes again, and a single row has none."""
    own = ["--layers", "1", "--hidden", "64", "--vocab", "300", "--batch", "4", "--eval-every", "0", "--examples", "0", "--steps", "1", "--pack", "false"]
    errors = {}
    (SCRATCH / "pair").write_text("\n".join([LINES[0]] * 30 + [LINES[1]]) + "\n")
    for name, words in (("one", ["--data", "single", "--split-fraction", "0.5"]), ("batch", ["--data", "corpus", "--eval-batches", "1"]),
                        ("many", ["--data", "corpus", "--eval-batches", "64"])):
        if name == "one":
            for other in range(40): # two texts, of which one is held out
                (SCRATCH / "single").write_text("\n".join([LINES[0], LINES[other + 1]]) + "\n")
                said = program.run("train", *words, "--rows", "line", *own, "--length", "48", "--out", name, "--fresh").stderr
                if "too little text" not in said:
                    break
        else:
            said = train(*own, *words[2:], "--length", "48", "--out", name)
        event = [json.loads(line) for line in (SCRATCH / name / "metrics.jsonl").read_text().splitlines() if '"eval"' in line][-1]
        again = program.run("train", *words, "--rows", "line", *own, "--length", "48", "--out", name, "--fresh", "--json").stdout
        printed = [json.loads(line) for line in again.splitlines() if '"eval"' in line][-1]
        ok(printed == event, f"{name}: --json prints the event of the metrics: {printed}, {event}")
        errors[name] = event.get("stderr")
        ok(("too few rows for an error" in said) == (name == "one"), f"{name}: {said[-400:]}")
    ok(errors["one"] is None and errors["batch"] > 0, f"one row, one batch: {errors}")
    ok(errors["many"] > 0.5 * errors["batch"], f"64 batches of the same few rows say no more: {errors}")


def implied_options():
    """Options of the policy that decodes a model, and of the objective of a run, need no name before them."""
    done = program.run("generate", "o_dream", "line", "--length", "4", "--alg", "entropy", "--json")
    named = program.run("generate", "o_dream", "line", "--length", "4", "--alg", "entropy", "--json", "--policy", "dream")
    ok(done.returncode == 0 and done.stdout == named.stdout, f"--alg of policy dream: {done.stderr[-300:]}")
    wrong = program.run("generate", "o_dream", "line", "--finish-steps", "2")
    ok(wrong.returncode == 2 and "policy editflow" in wrong.stderr, f"an option of another policy: {wrong.stderr}")
    train(*SMALL, "--out", "edits", "--objective", "editflow", "--steps", "2")
    for words in ([""], ["line"]):
        done = program.run("generate", "edits", *words, "--length", "4", "--keep-masks", "--steps", "2", "--json")
        ok(done.returncode == 0 and "<|mask|>" not in done.stdout, f"--keep-masks of editflow: {done.stdout} {done.stderr}")
    train(*SMALL, "--out", "tails", "--objective", "llada_sft", "--steps", "2")
    said = program.run("train", "--out", "tails", "--steps", "3", "--answer-padding", "true")
    ok("no option named" not in said.stderr, f"an option of the objective of the run: {said.stderr[-300:]}")


def last_lines():
    """The last line of --json has the reason of the end, also of a finished run and of an error."""
    def last(*words):
        lines = program.run("train", "--data", "corpus", "--rows", "line", "--json", *words).stdout.splitlines()
        return json.loads(lines[-1]) if lines else {}
    for words, reason in ((["--out", "ends", *SMALL, "--steps", "2"], "steps"), (["--out", "ends"], "steps"), (["--out", "ends", "--tokens", "400"], "budget"),
                          (["--out", "ends"], "budget"), (["--out", "ends", "--minutes", "0.002"], "budget"), (["--out", "ends"], "budget")):
        row = last(*words)
        ok(row.get("event") == "end" and row.get("reason") == reason, f"{words}: {row}")
    ok("error" in last("--out", "ends", "--objective", "nothing"), "an error is the last line")


def words_of_flags():
    """Errors of the library name the options as the program has them."""
    train(*SMALL, "--out", "plainly", "--steps", "1")
    for words, said, code in ((["--ema", "0.9"], "--ema 0.9 differs from 0.0, which plainly was started with", 2),
                              (["--objective.time-epsilon", "0.1"], "--objective.time-epsilon 0.1 differs from", 2),
                              (["--beta1", "0.5"], "leave that option out to continue", 1), (["--epochs", "0.5"], "--steps or --tokens", 2)):
        done = program.run("train", "--out", "plainly", "--steps", "2", *words)
        ok(done.returncode == code and said in done.stderr, f"{words}: {done.stderr[-300:]}")
    done = program.run("train", "--data", "corpus", *SMALL, "--out", "flags", "--steps", "1", "--eos-block", "8")
    ok("set --pack false" in done.stderr, f"--eos-block: {done.stderr[-200:]}")
    program.run("export", "plainly", "exported")
    done = program.run("export", "plainly", "exported")
    ok("set --overwrite" in done.stderr, f"export again: {done.stderr}")


def parquet_ranges():
    """Ranges of rows are those of any other file."""
    (SCRATCH / "rows.parquet").write_bytes(parquet({"text": [LINES[i % len(LINES)] for i in range(200)]}, 50)[0])
    for rows, count in (("[:20]", 20), ("[50%:]", 100), ("[-30:]", 30), ("[10:60]", 50), ("[:100]*0.5", 50)):
        done = program.run("train", "--data", f"rows.parquet{rows}", *SMALL, "--out", "ranges", "--steps", "1", "--fresh", "--json")
        found = json.loads(done.stdout.splitlines()[0]).get("rows")
        ok(found == count, f"rows.parquet{rows}: {found} {done.stderr[-200:]}")


def special_tokens():
    """--special-tokens are tokens of the new tokenizer, and belong to the start of a run."""
    (SCRATCH / "thoughts").write_text("\n".join(f"<think>{line}</think> yes" for line in LINES) + "\n")
    words = ["--data", "thoughts", "--rows", "line", *SMALL, "--out", "thinks"]
    ok(program.run("train", *words, "--steps", "1", "--special-tokens", "<think>,</think>").returncode == 0, "--special-tokens")
    added = {row["content"]: row["special"] for row in json.loads((SCRATCH / "thinks/tokenizer.json").read_text())["added_tokens"]}
    ok(added.get("<think>") is True and added.get("</think>") is True, f"the tokenizer has them: {added}")
    ok("resumed" in program.run("train", *words, "--steps", "2", "--special-tokens", "<think>,</think>").stderr, "the same command resumes")
    for more, said in ((["--special-tokens", "<a>"], "which thinks was started with"), (["--from", "seeded", "--out", "other_thinks"], "trained here")):
        done = program.run("train", *(words if "--from" not in more else words[:4]), "--steps", "3", "--special-tokens", "<a>", *more)
        ok(done.returncode == 2 and said in done.stderr, f"{more}: {done.stderr[-300:]}")


def stopped_evaluation():
    """A signal during a held-out loss keeps the steps before it."""
    words = ["train", "--data", "corpus", "--rows", "line", *SMALL, "--out", "evaluates", "--steps", "100000", "--eval-every", "7",
             "--eval-batches", "1000000", "--loader.epochs", "0"]
    process = subprocess.Popen([DLLM, *words], cwd=SCRATCH, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    metrics = SCRATCH / "evaluates/metrics.jsonl"
    while process.poll() is None and (not metrics.exists() or '"step":7' not in metrics.read_text()):
        time.sleep(0.05)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    ok(process.returncode == 130 and "interrupted" in said, f"Ctrl-C in a held-out loss: {process.returncode} {said[-200:]}")
    ok((SCRATCH / "evaluates/step_000007/COMMIT").exists(), "its steps are saved")
    events = lambda: [json.loads(line) for line in metrics.read_text().splitlines()]
    ok(not [row for row in events() if row.get("event") == "eval"], f"no held-out loss yet: {events()[-2:]}")
    program.run("train", "--out", "evaluates", "--steps", "9", "--eval-batches", "3")
    found = [row["step"] for row in events() if row.get("event") == "eval"]
    ok(found[:1] == [7] and len(found) == len(set(found)), f"the run goes on with that held-out loss: {found}")
    # A signal after the loss, while rows are predicted: the second start does the rest, and writes the loss once.
    words = ["train", "--data", "corpus", "--rows", "line", *SMALL, "--out", "predicts", "--steps", "100000", "--eval-every", "3",
             "--eval-batches", "1", "--examples", "1000000", "--loader.epochs", "0", "--log", "csv", "--split-fraction", "0.5"]
    (SCRATCH / "many_lines").write_text("\n".join(f"{line} {i}" for i in range(400) for line in LINES) + "\n")
    words[2] = "many_lines"
    process = subprocess.Popen([DLLM, *words], cwd=SCRATCH, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    metrics = SCRATCH / "predicts/metrics.jsonl"
    while process.poll() is None and (not metrics.exists() or '"event":"eval"' not in metrics.read_text()):
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    ok(not (SCRATCH / "predicts/examples.jsonl").exists(), "the signal came before the end of the predictions")
    before = [row for row in events() if row.get("event") == "eval"]
    program.run("train", "--out", "predicts", "--steps", "5", "--examples", "4")
    ok([row for row in events() if row.get("event") == "eval"][:1] == before and [row["step"] for row in events() if row.get("event") == "eval"] == [3, 5],
       f"each held-out loss once: {[row for row in events() if row.get('event') == 'eval']}")
    table = [line.split(",")[0] for line in (SCRATCH / "predicts/metrics.csv").read_text().splitlines()[1:]]
    ok(sorted(table) == ["1", "2", "3", "3", "4", "5", "5"], f"and in the table: {table}")
    shown = [json.loads(line)["step"] for line in (SCRATCH / "predicts/examples.jsonl").read_text().splitlines()]
    best = json.loads((SCRATCH / "predicts/run.json").read_text())["best"]
    ok(shown == [3, 5] and best["last_step"] == 5 and "evaluating" not in best, f"with its examples and the record of the best: {shown} {best}")


def signals():
    """Two signals at once are one; another one later ends the program."""
    def started(out):
        words = ["train", "--data", "corpus", "--rows", "line", *SMALL, "--out", out, "--steps", "1000000"]
        process = subprocess.Popen([DLLM, *words], cwd=SCRATCH, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        while not (SCRATCH / out / "metrics.jsonl").exists() and process.poll() is None:
            time.sleep(0.05)
        time.sleep(0.2)
        return process
    for i, gap in enumerate((0, 0.001, 0.05)):
        process = started(f"twice{i}")
        process.send_signal(signal.SIGTERM)
        time.sleep(gap)
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=60)[1]
        ok(process.returncode == 143 and "interrupted" in said, f"two SIGTERM {gap} s apart: {process.returncode} {said[-200:]}")


def silent_store():
    """The first Ctrl-C ends a command that waits for an object store."""
    server = socket.create_server(("127.0.0.1", 0))
    keys = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.getsockname()[1]}", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    place = "s3://bucket/run"
    for words in (["inspect", place], ["tokenize", place, "word"], ["generate", place, "word"],
                  ["eval", place, "corpus"], ["train", "--data", "corpus", "--out", place], ["export", place, "exported"], ["bench", "--model", place],
                  ["train", "--data", "corpus", "--from", place, "--out", "adapted"],
                  ["train", "--data", "corpus", "--tokenizer", place, "--out", "adapted"], ["infill", place, "a <mask:1>"],
                  ["graph", "--model", place], ["chat", place], ["quantize", place, "small.gguf"], ["convert", place, "whole.gguf"],
                  ["tokenizer-train", "--data", place, "--out", "t.json"]):
        process = subprocess.Popen([DLLM, *words], cwd=SCRATCH, env=os.environ | keys, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        server.settimeout(20)
        try:
            with server.accept()[0]: # the request is on its way and gets no answer
                process.send_signal(signal.SIGINT)
                said = process.communicate(timeout=20)[1]
        except TimeoutError:
            process.kill()
            said = process.communicate()[1]
            if "libcurl" in said: # asked for before anything else
                return
        ok(process.returncode in (130, -signal.SIGINT), f"{words}: exit {process.returncode} {said[-200:]}")
    server.close()


def without_a_checkpoint():
    """A run that has saved nothing yet is no damaged model, and no folder without one."""
    train(*SMALL, "--out", "begun", "--steps", "1")
    for folder in (SCRATCH / "begun").glob("step_*"):
        shutil.rmtree(folder)
    for words in (("generate", "begun", "x"), ("infill", "begun", "a<mask>"), ("chat", "begun"), ("eval", "begun", "corpus"), ("export", "begun", "x"),
                  ("inspect", "begun"), ("convert", "begun", "x.gguf"), ("quantize", "begun", "x.gguf"), ("graph", "begun"), ("bench", "--model", "begun"),
                  ("train", "--from", "begun", "--data", "corpus", "--out", "x"), ("trajectories", "begun", "--data", "corpus", "--out", "x.jsonl")):
        done = program.run(*words)
        ok(done.returncode == 1 and "a run that has saved no checkpoint yet" in done.stderr, f"{words}: {done.returncode} {done.stderr[-300:]}")
    done = program.run("verify", "begun")
    ok(done.returncode == 1 and "the run has no finished checkpoint" in done.stdout, f"verify: {done.stdout}")
    ok(program.run("tokenize", "corpus", "tokens", "--model", "begun").returncode == 0, "its tokenizer is there")
    ok("step 1" in train(*SMALL, "--out", "begun", "--steps", "1") or (SCRATCH / "begun" / "step_000001").exists(), "the same command trains again")


def messages():
    """Wrong inputs name the thing and what to try."""
    for words, named in (
            (["infill", "seeded", "a <mask:0> b"], "<mask:0>"), (["infill", "seeded", "a <mask:x> b"], "<mask:x>"),
            (["bench", "seeded"], "--model seeded"), (["generate", "seeded", "a", "--stop", ","], "--until"),
            (["inspect", "s3://b/runs/x"], "3 to 63"), (["train", "--data", "corpus", "--out", "no", "--freeze", "nosuch*"], "nosuch*")):
        done = program.run(*words)
        ok(done.returncode != 0 and named in done.stderr, f"{words}: {done.returncode} {done.stderr[-300:]}")
    program.run("tokenize", "corpus", "corpus.tok", "--model", "seeded")
    (SCRATCH / "own.json").write_text('{"config": "x"}')
    (SCRATCH / "flat.json").write_text('{"trainer": 5}')
    (SCRATCH / "loop").symlink_to("loop")
    (SCRATCH / "there.gguf").write_text("there")
    for words, named in (
            (["train", "--data", "corpus.tok", "--out", "nope"], "--tokenizer"),
            (["train", "--data", "corpus", "--out", "nope", "--from", "seeded", "--lora", "4", "--objective", "editflow"], "an adapter does not add them"),
            (["generate", "seeded", "a", "--decoder.edit-prompt", "true"], "add --policy editflow"),
            (["generate", "seeded", "a", "--finish-steps", "2"], "add --policy editflow"),
            (["generate", "seeded", "a", "--config", "own.json"], "for the command line alone"),
            (["train", "--data", "corpus", "--out", "nope", "--config", "flat.json"], "trainer takes an object of its options, not number"),
            (["train", "--data", "corpus", "--out", "nope", "--from", "seeded", "--layers", "2", "--hidden", "64"], "--layers and --hidden are for a new model"),
            (["train", "--data", "loop", "--out", "nope"], "cannot use loop: "),
            (["eval", "seeded", "corpus", "--row-length", "5000"], "--row-length 5000 is more than the 1024 positions"),
            (["generate", "seeded", "a", "--trace", "no/such/trace"], "there is no folder no/such"),
            (["quantize", "seeded", "there.gguf", "--format", "q8_0"], "set --overwrite"),
            (["train", "--data", "corpus", "--out", "nope", "--objective", "ar", "--model.attention", "bidirectional"], "needs causal attention"),
            (["train", "--data", "corpus", "--out", "nope", "--objective", "ar", "--objective.attention", "bidirectional"], "needs causal attention"),
            (["train", "--data", "corpus", "--out", "nope", "--objective", "ar", "--objective.attention", "block_causal"], "needs causal attention"),
            (["chat", "seeded", "hi"], "--template alpaca")):
        done = program.run(*words)
        ok(done.returncode != 0 and named in done.stderr, f"{words}: {done.returncode} {done.stderr[-300:]}")
    done = program.run("nosuch", "--json")
    ok(done.returncode == 2 and 'no command named "nosuch"' in json.loads(done.stdout)["message"], f"an unknown command as JSON: {done.stdout}")
    (SCRATCH / "nulls.json").write_text('{"file": null, "trace": null, "length": 3}')
    done = program.run("generate", "seeded", "a", "--config", "nulls.json", "--json")
    ok(done.returncode == 0 and json.loads(done.stdout)["completion_tokens"] <= 3, f"null in a config file is an argument that was not given: {done.stderr}")
    (SCRATCH / "script.lua").write_text("print(arg[0], arg[1])")
    ok(program.run("run", "script.lua", "x").stdout == "script.lua\tx\n", "arg[0] is the script")
    said = train(*SMALL, "--out", "notes", "--steps", "2", "--truncate", "drop", "--cooldown-start", "1", "--trainer.schedule", "cosine")
    ok("--loader.truncate has no effect" in said and "--trainer.cooldown-start has no effect" in said, f"options without effect: {said[-600:]}")
    short = ["--rows", "line", "--length", "32", "--batch", "4", "--eval-every", "0", "--examples", "0"]
    done = program.run("train", "--data", "corpus", *short, "--from", "notes", "--lora", "2", "--out", "low", "--steps", "1")
    ok(done.returncode == 0, f"an adapter: {done.stderr[-300:]}")
    program.run("export", "low", "low_adapter")
    done = program.run("generate", "low_adapter", "line")
    ok("is an adapter" in done.stderr and "--model.adapter" in done.stderr, f"an adapter as a model: {done.stderr}")
    shown = program.run("train", "--help").stdout
    for key, value in (("trainer.steps", "500"), ("loader.epochs", "0]"), ("loader.split", "train"), ("trainer.save-wait", "false")):
        text = shown.split(f"--{key} ")[1].split("\n  --")[0]
        ok("[" + value in text, f"--help shows the default of {key}: {text[-200:]}")
    ok(not (SCRATCH / "no" / "tokenizer.json").exists(), "--freeze is checked before a tokenizer is trained")
    said = program.run("generate", "seeded", "a <mask:2> b", "--length", "2").stderr
    ok("dllm infill" in said, "generate names infill for a hole")
    said = train(*SMALL, "--out", "wild", "--steps", "60", "--lr", "10", "--clip", "0", "--warmup", "0", "--eval-every", "20")
    ok(said.count("diverges") == 1, f"divergence has one line: {said[-300:]}")
    for end in ("", "\n", "\r\n"):
        (SCRATCH / "prompt.txt").write_bytes(f"line 4{end}".encode())
        texts = {program.run("generate", "seeded", *words, "--length", "1", "--quiet", stdin=given).stdout
                 for words, given in (([], f"line 4{end}"), (["--file", "prompt.txt"], ""), (["line 4"], ""))}
        ok(len(texts) == 1, f"the last line break {end!r} of a pipe and of a file is left out: {texts}")
    done = program.run("infill", "seeded", "--quiet", stdin="line 4: <mask:3> sat\n")
    ok(done.returncode == 0, f"infill reads a pipe: {done.stderr[-200:]}")
    done = program.run("tokenizer-train", "--data", "corpus", "--vocab", "280", "--out", "deep/er/tokenizer.json")
    ok(done.returncode == 0 and (SCRATCH / "deep/er/tokenizer.json").exists(), "tokenizer-train makes the folder")
    before = (SCRATCH / "deep/er/tokenizer.json").read_bytes()
    for out in ("deep/er/tokenizer.json", "deep/er"):
        done = program.run("tokenizer-train", "--data", "corpus", "--vocab", "270", "--out", out)
        ok(done.returncode == 1 and "--overwrite" in done.stderr and (SCRATCH / "deep/er/tokenizer.json").read_bytes() == before, f"{out} stays: {done.stderr}")
    done = program.run("tokenizer-train", "--data", "corpus", "--vocab", "270", "--out", "deep/er/tokenizer.json", "--overwrite")
    ok(done.returncode == 0 and (SCRATCH / "deep/er/tokenizer.json").read_bytes() != before, f"--overwrite replaces it: {done.stderr}")


def scores():
    """--limit is exact, text is read as the run read it, bits per byte belong to likelihoods."""
    for limit in (1, 4, 9):
        done = program.run("eval", "seeded", "corpus", "--limit", str(limit), "--row-length", "32", "--json")
        ok(json.loads(done.stdout)["rows"] == limit, f"--limit {limit}: {done.stdout[-200:]}")
    own = program.run("eval", "seeded", "corpus", "--limit", "8", "--row-length", "32", "--json").stdout
    lines = program.run("eval", "seeded", "corpus", "--rows", "line", "--limit", "8", "--row-length", "32", "--json").stdout
    whole = program.run("eval", "seeded", "corpus", "--rows", "file", "--limit", "8", "--row-length", "32", "--json").stdout
    ok(own == lines != whole, "rows are those of the run")
    for objective, bits in (("mdlm", True), ("dream", False), ("llada_sft", False), ("ar", True), ("open_dllm", False)):
        out = f"o_{objective}"
        train(*SMALL, "--out", out, "--objective", objective, "--steps", "2", "--eval-every", "2", "--eval-batches", "1")
        text = (SCRATCH / out / "metrics.jsonl").read_text()
        ok(("bits_per_byte" in text) == bits, f"{objective}: bits per byte {bits}")
    said = program.run("generate", "o_dream", "line", "--length", "4").stderr
    ok("--policy dream" in said, f"the policy of a run is named: {said[-200:]}")
    for words in (["generate", "MODEL", "line", "--length", "6"], ["infill", "MODEL", "line <mask:6> sat"]):
        for model in ("o_dream", "o_dream/best", "o_dream/step_000002"):
            own = [word.replace("MODEL", model) for word in words]
            done = program.run(*own, "--json")
            named = program.run(*own, "--json", "--policy", "dream")
            ok(done.returncode == 0 and done.stdout == named.stdout, f"{own}: decoded by the policy of the run {done.stderr[-200:]}")


def causal():
    """A causal model answers by its own policy, and a file of settings alone blocks nothing."""
    (SCRATCH / "prompts.jsonl").write_text('{"prompt": "line 4: the cat"}\n')
    (SCRATCH / "check.lua").write_text("return #text > 0")
    (SCRATCH / "kept.jsonl").write_text('{"settings": {"task": "answers", "data": "another"}}\n')
    done = program.run("eval", "o_ar", "prompts.jsonl", "--task", "answers", "--checker", "check.lua", "--length", "4",
                       "--out", "kept.jsonl")
    kept = (SCRATCH / "kept.jsonl").read_text()
    ok(done.returncode == 0 and '"policy":"autoregressive"' in kept, f"{done.stderr[-300:]} {kept[:300]}")


def attention():
    """--model.attention is the attention of the training too, and of a score."""
    short = ["--length", "32", "--batch", "4", "--eval-every", "0", "--examples", "0", "--steps", "5", "--lr", "0.003", "--vocab", "300",
             "--layers", "1", "--hidden", "64"]
    for name, words in (("free", []), ("causal", ["--model.attention", "causal"]), ("objective", ["--objective.attention", "causal"])):
        train(*short, *words, "--out", f"attention_{name}")
    weights = {name: (SCRATCH / f"attention_{name}/step_000005/model/model.safetensors").read_bytes() for name in ("free", "causal", "objective")}
    ok(weights["causal"] == weights["objective"] != weights["free"], "--model.attention trains as --objective.attention does")
    scores = [json.loads(program.run("eval", "attention_free", "corpus", "--limit", "8", "--json", *words).stdout)["nats_per_token"]
              for words in ([], ["--model.attention", "causal"])]
    ok(scores[0] != scores[1], f"a score takes --model.attention: {scores}")
    said = train(*short, "--objective", "bd3lm", "--model.attention", "causal", "--out", "attention_no", code=2)
    ok("an attention of its own" in said, f"bd3lm has its own: {said[-200:]}")


def warnings():
    """A training reads its data for the tokenizer and for itself, and warns once."""
    (SCRATCH / "latin").write_bytes("\n".join(f"{line} caf\u00e9" for line in LINES).encode("latin-1"))
    done = program.run("train", "--data", "latin", "--rows", "line", *SMALL, "--out", "latin_run", "--steps", "1")
    ok(done.stderr.count("are not UTF-8, the first is row 1") == 1, f"one warning: {done.stderr[-600:]}")


program.empty_folder()
(SCRATCH / "corpus").write_text("\n".join(LINES) + "\n")
for part in (seeds, differences, answers, fresh_is_safe, kept, finished, limits, other_batches, later_logs, links, best, several_best, by_clock, clock_goes_on, rows_of_any_length, rates_of_budgets, padding_is_a_row, parts_of_budgets, all_held_out, few_held_out_rows, last_lines, words_of_flags, parquet_ranges, special_tokens, stopped_evaluation, signals, silent_store, messages, scores, implied_options, causal, attention, warnings,
             without_a_checkpoint):
    part()
sys.exit(1 if program.failures else 0)
