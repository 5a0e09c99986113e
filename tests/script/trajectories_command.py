"""dllm trajectories, and dllm train --trajectories.   trajectories_command.py DLLM SCRATCH"""
import json
import pathlib
import re
import subprocess
import sys

from cli_options import LINES, Program

DLLM, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2])
program = Program(DLLM, SCRATCH)
ok = program.ok
ROWS = ["--data", "corpus", "--rows", "line"]
LOOP = [*ROWS, "--length", "32", "--batch", "4", "--eval-every", "0", "--examples", "0", "--lr", "0.01", "--warmup", "0"]


def run(*words, code=0):
    done = program.run(*words)
    ok(done.returncode == code, f"{' '.join(words)}: exit {done.returncode} {done.stderr[-300:] if done.returncode != code else ''}")
    return done


def lines_of(name):
    return [json.loads(line) for line in (SCRATCH / name).read_text().splitlines()]


program.empty_folder()
(SCRATCH / "corpus").write_text("\n".join(LINES) + "\n")
(SCRATCH / "other").write_text("\n".join(line[::-1] for line in LINES) + "\n")
run("train", *LOOP, "--out", "base", "--layers", "2", "--hidden", "64", "--vocab", "300", "--steps", "20")

# ---- what is written ----
for method in ("scheduled", "entropy", "left_to_right", "block_wise"):
    done = run("trajectories", "base", *ROWS, "--out", f"{method}.jsonl", "--method", method, "--json")
    made = lines_of(f"{method}.jsonl")
    ok(json.loads(done.stdout)["rows"] == len(made) == len({line["idx"] for line in made}) > 0, f"{method}: a line for each row")
    ok(all(line["prompt_len"] + len(line["order"]) == line["len"] and min(line["order"]) == 1 for line in made), f"{method}: orders")
    ok(("tokens" in made[0]) == (method in ("entropy", "block_wise")), f"{method}: tokens of the model")
ok(all(line["order"] == sorted(line["order"]) for line in lines_of("left_to_right.jsonl")), "left to right")
run("trajectories", "base", *ROWS, "--out", "rows.jsonl", "--lines", "rows", "--steps", "4")
for line in lines_of("rows.jsonl"):
    hidden = [sum(a != b for a, b in zip(row, line["trajectory"][-1])) for row in line["trajectory"]]
    ok(hidden == sorted(hidden, reverse=True) and hidden[-1] == 0 and line["nfe"] == len(hidden) <= 5, f"row {line['idx']}: hides fewer tokens {hidden}")

# ---- a stopped extraction goes on ----
run("trajectories", "base", *ROWS, "--out", "parts.jsonl", "--limit", "7")
whole = (SCRATCH / "scheduled.jsonl").read_bytes()
ok(len(lines_of("parts.jsonl")) == 7, "--limit 7: 7 rows")
(SCRATCH / "parts.jsonl").write_bytes((SCRATCH / "parts.jsonl").read_bytes() + whole[:30])
run("trajectories", "base", *ROWS, "--out", "parts.jsonl")
ok((SCRATCH / "parts.jsonl").read_bytes() == whole, "a file with a torn line ends as a whole one")
ok("0 new rows" in run("trajectories", "base", *ROWS, "--out", "parts.jsonl").stderr, "a whole file stays")

# ---- other settings are refused, and the error names the setting, both values and the way out ----
run("train", *LOOP, "--out", "other_base", "--from", "base", "--steps", "2")
run("train", *LOOP, "--out", "other_tokens", "--layers", "2", "--hidden", "64", "--vocab", "290", "--steps", "2")
SAME = {"model": "base", "--data": "corpus", "--rows": "line", "--out": "parts.jsonl"}
CHANGED = {"teacher.weights": {"model": "other_base"}, "method": {"--method": "left_to_right"},
           "steps": {"--steps": "7"}, "context": {"--context": "0.5"}, "length": {"--trajectories.length": "9"}, "least": {"--least": "9"},
           "lines": {"--lines": "rows"}, "fill": {"--fill": "model"}, "attention": {"--trajectories.attention": "causal"},
           "shift": {"--trajectories.shift": "1"}, "suppress_mask": {"--suppress-mask": "false"}, "tokenizer": {"model": "other_tokens"},
           "data.hash": {"--data": "other"}, "data.rows": {"--data": "longer"}, "teacher.arithmetic": {"--arithmetic": "bf16"}}
(SCRATCH / "longer").write_text((SCRATCH / "corpus").read_text() + "one more line\n")


def extract(changes, code=0):
    words = {**SAME, **changes}
    return run("trajectories", words.pop("model"), *[word for pair in words.items() for word in pair], code=code)


for name, changes in CHANGED.items():
    done = extract(changes, code=1)
    named = re.search(r"parts.jsonl was made with (\S+) (.+), here (.+)", done.stderr)
    ok(named and named[2] != named[3] and "--fresh" in done.stderr, f"{name}: refused with both values: {done.stderr}")
    ok(named and (named[1].split(".")[0] == name.split(".")[0] or name == "tokenizer"), f"{name}: is named: {done.stderr}")
ok((SCRATCH / "parts.jsonl").read_bytes() == whole, "a refused call changes nothing")
for changes in ({"--batch": "3"}, {"--engine.threads": "1"}, {"--limit": "1"}):
    ok("0 new rows" in extract(changes).stderr, f"{changes}: changes no line")
(SCRATCH / "parts.jsonl.settings.json").rename(SCRATCH / "kept")
ok("settings.json is missing" in extract({}, code=1).stderr, "lines of unknown settings are refused")
done = extract({"--steps": "7", "--fresh": "true"})
ok(f"{len(lines_of('scheduled.jsonl'))} new rows" in done.stderr and (SCRATCH / "parts.jsonl").read_bytes() != whole, f"--fresh begins again: {done.stderr}")
corpus = (SCRATCH / "corpus").read_bytes()
done = extract({"--out": "corpus", "--fresh": "true"}, code=1)
ok("not a file of trajectories" in done.stderr and (SCRATCH / "corpus").read_bytes() == corpus, f"--fresh replaces no other file: {done.stderr}")
run("generate", "base", "line", "--length", "4", "--trace", "trace.jsonl")
trace = (SCRATCH / "trace.jsonl").read_bytes()
for option in ("--html", "--svg"):
    run("replay", "trace.jsonl", option, "picture")
    run("replay", "trace.jsonl", option, "picture")
    (SCRATCH / "picture").unlink()
    for path in ("trace.jsonl", "corpus"):
        done = run("replay", "trace.jsonl", option, path, code=1)
        ok("is there already" in done.stderr, f"replay {option} {path}: {done.stderr}")
ok((SCRATCH / "trace.jsonl").read_bytes() == trace and (SCRATCH / "corpus").read_bytes() == corpus, "replay replaces no other file")

# ---- one process at a time writes a file ----
words = ["trajectories", "base", *ROWS, "--out", "raced.jsonl", "--engine.threads", "1", "--trajectories.batch", "1"]
both = [subprocess.Popen([DLLM, *words], cwd=SCRATCH, stderr=subprocess.PIPE, text=True) for _ in range(2)]
said = [process.communicate()[1] for process in both]
refused = [text for text in said if "is in use: another process writes to it" in text]
ok(len(refused) == 1 or any("0 new rows" in text for text in said), f"two processes: {said}")
ok((SCRATCH / "raced.jsonl").read_bytes() == whole, "two processes write no row twice")

# ---- teachers that do not fill masks ----
for objective in ("uniform", "editflow"):
    run("train", *LOOP, "--out", objective, "--layers", "2", "--hidden", "64", "--vocab", "300", "--steps", "2", "--objective", objective)
    done = run("trajectories", objective, *ROWS, "--out", f"{objective}.jsonl", code=1)
    ok(f"was trained with {objective}" in done.stderr and "left_to_right" in done.stderr, f"{objective}: refused: {done.stderr}")
    run("trajectories", objective, *ROWS, "--out", f"{objective}.jsonl", "--method", "left_to_right")
run("train", *LOOP, "--out", "ordered", "--layers", "2", "--hidden", "64", "--vocab", "300", "--steps", "2", "--objective", "ar")
done = run("trajectories", "ordered", *ROWS, "--out", "ordered.jsonl")
ok("predicts the next token and was not trained to fill masks" in done.stderr, f"a next-token model: {done.stderr}")
ok("warning" not in run("trajectories", "base", *ROWS, "--out", "quiet.jsonl", "--limit", "1").stderr, "a model of masks: no warning")

# ---- training ----
TRACED = ["train", *LOOP, "--from", "base", "--steps", "6", "--trajectories"]
losses = {}
for name, words in {"plain": [], "same": [], "ramp": ["--trajectory-ramp", "6"], "blocks": ["--trajectory-blocks", "4,8", "--trajectory-ramp", "6"]}.items():
    run(*TRACED, "scheduled.jsonl", "--out", name, *words)
    losses[name] = [line["loss"] for line in lines_of(f"{name}/metrics.jsonl") if "loss" in line]
ok(losses["plain"] == losses["same"], "a seed repeats a run")
ok(len({tuple(values) for values in losses.values()}) == 3, "options change the losses")
run(*TRACED, "rows.jsonl", "--out", "of_rows")
done = run("train", *LOOP, "--data", "other", "--from", "base", "--steps", "2", "--trajectories", "scheduled.jsonl", "--out", "x", code=1)
ok("scheduled.jsonl:1: the trajectory of row" in done.stderr and "another text" in done.stderr, f"other data is refused: {done.stderr}")
done = run(*TRACED, "scheduled.jsonl", "--out", "x", "--objective", "uniform", code=1)
ok("objective uniform does not read array trajectory" in done.stderr, f"another objective refuses them: {done.stderr}")
done = run("train", *LOOP, "--out", "x", "--layers", "1", "--hidden", "64", "--vocab", "300", "--trajectory-ramp", "3", code=2)
ok("it is for --trajectories" in done.stderr, f"an option without trajectories: {done.stderr}")
done = run("trajectories", "base", *ROWS, "--out", "x.jsonl", "--method", "left_to_right", "--engine.threads", "1", code=2)
ok("method left_to_right reads no model" in done.stderr, f"options of the engine: {done.stderr}")
sys.exit(program.failures > 0)
