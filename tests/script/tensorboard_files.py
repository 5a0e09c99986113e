"""TensorBoard reads the event files of dllm train, with the numbers of metrics.jsonl.   tensorboard_files.py DLLM SCRATCH [PYTHON]

Needs tensorboard in the running Python or in PYTHON
(python3 -m venv build/tensorboard_venv && build/tensorboard_venv/bin/pip install tensorboard); else it is skipped.
"""
import importlib.util
import json
import os
import pathlib
import shutil
import sys

if importlib.util.find_spec("tensorboard") is None:
    other = sys.argv[3] if len(sys.argv) > 3 else ""
    if other and os.path.exists(other) and not sys.prefix.endswith("tensorboard_venv"):
        os.execv(other, [other, "-B", *sys.argv])
    print("skipped: tensorboard is not installed")
    sys.exit(77)

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from cli_options import LINES, Program

DLLM, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2])
program = Program(DLLM, SCRATCH)
ok = program.ok


def read():
    events = EventAccumulator(str(SCRATCH / "run/tensorboard"), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def recorded():
    rows = [json.loads(line) for line in (SCRATCH / "run/metrics.jsonl").read_text().splitlines()]
    return [row for row in rows if row["event"] == "train_step"], [row for row in rows if row["event"] == "eval"]


def same(drawn, rows, key):
    return [step for step, _ in drawn] == [row["step"] for row in rows] and \
        all(abs(value - row[key]) <= 1e-5 * abs(row[key]) for (_, value), row in zip(drawn, rows))


def compare(what):
    scalars, (steps, held_out) = read(), recorded()
    for key in ("loss", "lr", "grad_norm", "tokens_per_second", "nll"):
        ok(same(scalars.get(f"train/{key}", []), steps, key), f"{what}: train/{key} of {len(steps)} steps")
    for key in ("loss", "stderr", "bits_per_byte"):
        ok(same(scalars.get(f"held_out/{key}", []), held_out, key), f"{what}: held_out/{key} {len(held_out)}")


program.empty_folder()
(SCRATCH / "corpus").write_text("\n".join(LINES) + "\n")
train = ["train", "--data", "corpus", "--rows", "line", "--out", "run", "--layers", "1", "--hidden", "64", "--vocab", "300", "--length", "32",
         "--batch", "4", "--eval-every", "5", "--save-every", "10", "--examples", "0", "--log", "csv,tensorboard"]
done = program.run(*train, "--steps", "10")
ok(done.returncode == 0, f"a run: {done.stderr[-300:]}")
compare("one start")
done = program.run("train", "--out", "run", "--steps", "20")
ok(done.returncode == 0 and len(list((SCRATCH / "run/tensorboard").iterdir())) == 2, f"a second start has a file of its own: {done.stderr[-300:]}")
compare("two starts")
# The second checkpoint is lost, so that steps 11 to 20 come again: TensorBoard drops the earlier ones.
shutil.rmtree(SCRATCH / "run/step_000020")
done = program.run("train", "--out", "run", "--steps", "15", "--lr", "0.001")
ok(done.returncode == 0, f"a start that went back: {done.stderr[-300:]}")
compare("a start that went back")
table = (SCRATCH / "run/metrics.csv").read_text().splitlines()
ok(len(table) == 1 + 15 + 3 and table[-1].split(",")[0] == "15", f"metrics.csv has the same steps: {len(table)} lines")
sys.exit(1 if program.failures else 0)
