"""dllm sweep: every point is trained once, finished runs are skipped, others resume.   sweep_command.py DLLM SCRATCH"""
import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

from cli_options import LINES, Program

DLLM, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2])
program = Program(DLLM, SCRATCH)
ok = program.ok
TRAIN = {"data": "corpus", "rows": "line", "layers": 1, "hidden": 64, "vocab": 300, "length": 32, "batch": 4, "steps": 6,
         "eval-every": 3, "eval-batches": 2, "examples": 0}


def write(name, plan):
    (SCRATCH / name).write_text(plan if isinstance(plan, str) else json.dumps(plan))
    return name


def sweep(name, *words, code=0):
    done = program.run("sweep", name, *words)
    ok(done.returncode == code, f"sweep {name}: exit {done.returncode} {done.stderr[-300:] if done.returncode != code else ''}")
    return done


def steps(folder):
    rows = [json.loads(line) for line in (SCRATCH / folder / "metrics.jsonl").read_text().splitlines()]
    return [row["step"] for row in rows if row["event"] == "train_step"]


def grid():
    plan = {"out": "grid", "train": TRAIN, "grid": {"lr": [0.001, 0.01], "trainer.optimizer": ["adamw", "sgd"]}}
    done = sweep(write("grid.json", plan), "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    names = {f"grid/lr={lr},trainer.optimizer={way}" for lr in (0.001, 0.01) for way in ("adamw", "sgd")}
    ok({row["run"] for row in rows} == names and all(row["state"] == "finished" and row["steps"] == 6 for row in rows), f"four runs: {rows}")
    ok([row["lowest"] for row in rows] == sorted(row["lowest"] for row in rows), "the lowest held-out loss is first")
    page = (SCRATCH / "grid/report.html").read_text()
    ok("trainer.optimizer" in page and 'id="settings"' in page, "a page compares them")
    said = sweep("grid.json").stderr
    ok("run 1 of 4" not in said, "finished runs are skipped")
    plan["grid"]["lr"].append(0.1)
    said = sweep(write("grid.json", plan)).stderr
    ok(said.count(" of 6: ") == 2, f"two more runs for a new value: {said[-300:]}")
    plan["train"] = {**TRAIN, "steps": 8}
    sweep(write("grid.json", plan))
    ok(all(steps(name) == list(range(1, 9)) for name in names), "more steps go on with every run")
    plan["grid"]["lr"].append(0.02)
    done = sweep(write("grid.json", plan))
    lines = [line for line in done.stdout.splitlines() if "lr=" in line]
    ok(all(("continued from step 6" in line) == ("lr=0.02" not in line) for line in lines) and len(lines) == 8, f"continued runs are marked: {lines}")
    ok(done.stdout.splitlines()[-1].startswith("A continued run had the learning rates"), f"one note says why: {done.stdout[-300:]}")
    rows = [json.loads(line) for line in sweep("grid.json", "--json").stdout.splitlines()]
    ok(all(row["continued_from"] == ([] if "lr=0.02" in row["run"] else [6]) for row in rows), f"and in JSON: {rows}")
    page = (SCRATCH / "grid/report.html").read_text()
    ok(page.count("<small>continued from step 6</small>") == 6 and page.count("A continued run had") == 1, "and on the page")
    plan["train"] = {**TRAIN, "steps": 7}
    sweep(write("fewer.json", plan))
    rows = [json.loads(line) for line in sweep("fewer.json", "--json").stdout.splitlines()]
    ok(all(row["steps"] == 8 and row["continued_from"] in ([], [6]) for row in rows), f"fewer steps continue nothing: {rows}")
    plan["train"] = {**TRAIN, "steps": 8}
    sweep("grid.json")
    shutil.rmtree(SCRATCH / "grid/lr=0.001,trainer.optimizer=sgd")
    (SCRATCH / "grid/sweep.json").write_text(json.dumps({name: entry for name, entry in json.loads((SCRATCH / "grid/sweep.json").read_text()).items()
                                                         if name != "lr=0.001,trainer.optimizer=sgd"}))
    rows = {row["run"]: row for row in map(json.loads, sweep("grid.json", "--json").stdout.splitlines())}
    ok(rows["grid/lr=0.001,trainer.optimizer=sgd"]["continued_from"] == [] and rows["grid/lr=0.001,trainer.optimizer=adamw"]["continued_from"] == [6],
       "a run that was begun again is not marked")
    table = sweep("grid.json").stdout
    for key, value in (("batch", 8), ("data", "other"), ("eval-every", 2)):
        plan["train"] = {**TRAIN, "steps": 8, key: value}
        configs = {path.name: path.read_text() for path in (SCRATCH / "grid/configs").iterdir()}
        said = sweep(write("changed.json", plan), code=1).stderr
        ok(f"was started with {key} {json.dumps(TRAIN[key])}, here {json.dumps(value)}" in said, f"a changed {key} is refused: {said[-300:]}")
        ok({path.name: path.read_text() for path in (SCRATCH / "grid/configs").iterdir()} == configs, "and nothing is written")
    ok(sweep("grid.json").stdout == table, "the sweep as it was goes on")
    corpus = (SCRATCH / "corpus").read_text()
    (SCRATCH / "corpus").write_text(corpus.replace("cat", "cow", 1))
    said = sweep("grid.json", code=1).stderr
    ok("corpus has other content than when grid/" in said and "checksum" in said, f"other content of the data is refused: {said[-300:]}")
    (SCRATCH / "corpus").write_text(corpus)
    ok(sweep("grid.json").stdout == table, "the content as it was goes on")


def seeds_and_batches():
    """Runs are compared on the same held-out rows for any batch, and a bare seed is the run's."""
    train = {**TRAIN, "eval-every": 0, "warmup": 0}
    plan = {"out": "seeds", "train": train, "grid": {"seed": [1, 2]}}
    rows = [json.loads(line) for line in sweep(write("seeds.json", plan), "--json").stdout.splitlines()]
    ok(len({row["last"] for row in rows}) == 2 and all(row["state"] == "finished" for row in rows), f"two seeds: {rows}")
    held_out = []
    for batch, accumulate in ((8, 1), (4, 2), (2, 4)):
        plan = {"out": f"batch{batch}", "train": {**train, "batch": batch, "accumulate": accumulate}}
        held_out.append(json.loads(sweep(write("batch.json", plan), "--json").stdout)["last"])
    ok(max(held_out) - min(held_out) < 1e-4, f"one training in three batches has one held-out loss: {held_out}")
    plan = {"out": "same", "train": {"from": "batch8/run", "data": "corpus", "rows": "line", "length": 32, "steps": 1, "lr": 0, "eval-every": 0,
                                     "eval-batches": 20, "split-fraction": 0.3, "examples": 0}, "grid": {"seed": [0, 1], "epochs": [0, 1]}}
    rows = [json.loads(line) for line in sweep(write("same.json", plan), "--json").stdout.splitlines()]
    ok(len({row["last"] for row in rows}) == 1, f"the same weights have one held-out loss for every seed and any epochs: {rows}")


def draws():
    plan = {"out": "draws", "train": {**TRAIN, "steps": 2}, "count": 4, "seed": 3,
            "random": {"lr": {"from": 1e-4, "to": 1e-2, "log": True}, "batch": {"from": 1, "to": 4}, "trainer.schedule": ["constant", "cosine"]}}
    sweep(write("draws.json", plan))
    made = sorted(path.name for path in (SCRATCH / "draws/configs").iterdir())
    ok(len(made) == 4, f"four draws: {made}")
    for path in (SCRATCH / "draws/configs").iterdir():
        values = json.loads(path.read_text())
        ok(1e-4 <= values["lr"] <= 1e-2 and values["batch"] in (1, 2, 3, 4), f"in their ranges: {values}")
    sweep("draws.json")
    ok(sorted(path.name for path in (SCRATCH / "draws/configs").iterdir()) == made, "the same plan has the same draws")


def more_draws():
    """A larger count adds draws to every point of the grid; a smaller one names the runs that are left out."""
    plan = {"out": "more", "train": {**TRAIN, "steps": 2}, "grid": {"trainer.optimizer": ["adamw", "sgd"]}, "count": 2, "seed": 3,
            "random": {"lr": {"from": 1e-4, "to": 1e-2, "log": True}}}

    def runs(count, **changes):
        done = sweep(write("more.json", {**plan, "count": count, **changes}), "--json")
        return {json.loads(line)["run"] for line in done.stdout.splitlines()}, done.stderr
    few, _ = runs(2)
    many, said = runs(3)
    ok(len(few) == 4 and len(many) == 6 and few < many, f"the draws of a smaller count stay: {sorted(few)} {sorted(many)}")
    ok(said.count(" of 6: ") == 2, f"only the new draws are trained: {said[-400:]}")
    again, said = runs(2)
    ok(again == few and "more has 2 more runs, which this plan does not make: " in said and " of 4: " not in said, f"fewer draws: {said[-300:]}")
    ok(runs(3, grid={"trainer.optimizer": ["lion", "sgd", "adamw"]})[0] > many, "another point has no effect on the draws of a point")


def names():
    """Values with equal names are runs of their own, whose names stay."""
    plan = {"out": "alike", "train": {**TRAIN, "steps": 2}, "grid": {"data": ["texts/a", "texts_a"]}}
    (SCRATCH / "texts").mkdir()
    for name in plan["grid"]["data"]:
        (SCRATCH / name).write_text("\n".join(LINES) + "\n")
    rows = [json.loads(line) for line in sweep(write("alike.json", plan), "--json").stdout.splitlines()]
    ok(len({row["run"] for row in rows}) == 2 and all("texts_a-" in row["run"] for row in rows), f"two runs: {rows}")
    ok("run 1 of 2" not in sweep("alike.json").stderr, "their names stay")


def stopped():
    """Ctrl-C ends the sweep, and the same command goes on with the run that was stopped."""
    plan = {"out": "stops", "train": {**TRAIN, "steps": 400, "eval-every": 0}, "grid": {"lr": [0.001, 0.002]}}
    process = subprocess.Popen([DLLM, "sweep", write("stops.json", plan)], cwd=SCRATCH, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    first = SCRATCH / "stops/lr=0.001/metrics.jsonl"
    while process.poll() is None and (not first.exists() or '"step":5' not in first.read_text()):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)
    ok(process.returncode == 130 and "stopped" in said[0] and "waiting" in said[0], f"interrupted: {process.returncode} {said}")
    before = len(steps("stops/lr=0.001"))
    sweep("stops.json")
    ok(0 < before < 400 and steps("stops/lr=0.001") == list(range(1, 401)), f"it goes on after step {before}")


def unlike_runs():
    """Nats of runs with other tokens or objectives do not compare: bits per byte give the order, or a line says that nothing does."""
    train = {**TRAIN, "steps": 4}
    train.pop("vocab", None)
    plan = {"out": "vocabs", "train": train, "grid": {"vocab": [270, 600], "block-length": [8], "objective": ["mdlm", "bd3lm"]}}
    rows = [json.loads(line) for line in sweep(write("vocabs.json", plan), "--json").stdout.splitlines()]
    bits = [row["lowest_bits_per_byte"] for row in rows]
    ok(len(rows) == 4 and bits == sorted(bits) and all(row["ranked_by"] == "lowest_bits_per_byte" and "not_comparable" not in row for row in rows),
       f"the lowest bits per byte are first: {rows}")
    ok([row["lowest"] for row in rows] != sorted(row["lowest"] for row in rows), f"nats would give another order: {rows}")
    for row in rows:
        events = [json.loads(line) for line in (SCRATCH / row["run"] / "metrics.jsonl").read_text().splitlines()]
        ok(row["lowest_bits_per_byte"] == min(event["bits_per_byte"] for event in events if event["event"] == "eval"), "as the metrics of the run have them")
    table = sweep("vocabs.json").stdout.splitlines()
    ok("bits/byte" in table[0] and f"{bits[0]:9.4f}" in table[1], f"the table has them: {table[:2]}")
    plan = {"out": "unlike", "train": {**train, "vocab": 300}, "grid": {"objective": ["mdlm", "llada_sft"]}}
    done = sweep(write("unlike.json", plan), "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    ok(all(row["ranked_by"] == "lowest" and row["not_comparable"] == ["objective"] for row in rows), f"a loss that is no likelihood: {rows}")
    ok("do not compare between runs that differ in: objective" in done.stderr, f"a line says so: {done.stderr[-300:]}")


def hints():
    plan = {"out": "hints", "train": TRAIN, "grid": {"objective": ["bd3lm"]}}
    said = sweep(write("hints.json", plan), code=1).stderr
    ok("--block-length" in said, f"the hint of a failed run is printed: {said[-300:]}")
    record = json.loads((SCRATCH / "hints/sweep.json").read_text())
    ok("--block-length" in record["objective=bd3lm"]["hint"], f"and kept: {record}")


def failures():
    plan = {"out": "wild", "train": {**TRAIN, "clip": 0, "warmup": 0}, "grid": {"freeze": [["nosuch*"], []]}}
    rows = [json.loads(line) for line in sweep(write("wild.json", plan), "--json", code=1).stdout.splitlines()]
    ok(sorted(row["state"] for row in rows) == ["failed", "finished"], f"a run that fails does not end the sweep: {rows}")
    table = program.run("sweep", "wild.json").stdout
    ok("nan" not in table and re.search(r"^failed +\d+ +- +-", table, re.M), f"a run without a loss has none in the table: {table}")
    for text, named in (("", "JSON"), ('{"out": "x"}', "data"), ("[]", "JSON"), ("{}", "out"), ('{"out": ""}', "out"), ('{"out": "x", "grids": {}}', "grid"),
                        ('{"out": "x", "grid": {"lr": 3}}', "lr"), ('{"out": "x", "grid": {"lr": []}}', "lr"),
                        ('{"out": "x", "random": {"lr": {"from": 3, "to": 1}}, "count": 1}', "lr"),
                        ('{"out": "x", "random": {"lr": {"from": 0, "to": 1, "log": true}}, "count": 1}', "lr"),
                        ('{"out": "x", "grid": {"out": ["a", "b"]}}', "out is the folder"), ('{"out": "x", "random": {"out": ["a"]}, "count": 1}', "out is the folder"),
                        ('{"out": "x", "grid": {"lr": [1]}, "random": {"lr": [2]}, "count": 1}', "lr has values in grid too"),
                        ('{"out": "x", "random": {"lr": [1]}}', "count"), ('{"out": "x", "count": 3}', "count"),
                        ('{"out": "x", "random": {"lr": [1]}, "count": 100000}', "10000"),
                        ('{"out": "x", "train": {"data": "corpus"}, "grid": {"lrr": [1]}}', "lrr"),
                        ('{"out": "x", "train": {"data": "corpus"}, "grid": {"lr": ["fast"]}}', "lr")):
        done = program.run("sweep", write("bad.json", text))
        ok(done.returncode == 2 and named in done.stderr, f"{text}: {done.returncode} {done.stderr[-200:]}")
        ok(not list(SCRATCH.glob("x/lr*")), "nothing was trained")
    deep = {"out": "x", "grid": {f"k{i}": list(range(10)) for i in range(9)}}
    ok("10000" in program.run("sweep", write("bad.json", deep)).stderr, "too many points are refused before they are made")


program.empty_folder()
(SCRATCH / "corpus").write_text("\n".join(LINES) + "\n")
for part in (grid, seeds_and_batches, draws, more_draws, names, stopped, unlike_runs, hints, failures):
    part()
sys.exit(1 if program.failures else 0)
