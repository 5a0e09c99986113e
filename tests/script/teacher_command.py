"""A teacher of dllm train: what --teacher accepts, refuses and keeps.   teacher_command.py DLLM SCRATCH"""
import json
import os
import pathlib
import shutil
import subprocess
import sys

DLLM, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2])
failures = 0


def ok(good, text):
    global failures
    failures += not good
    print(f"{'ok  ' if good else 'FAIL'} {text}", flush=True)


def run(*words, folder=SCRATCH):
    return subprocess.run([DLLM, *words], cwd=folder, capture_output=True, text=True, timeout=300)


def train(out, *words, folder=SCRATCH):
    return run("train", "--out", out, "--rows", "line", "--length", "32", "--batch", "4", "--eval-every", "0", "--lr", "0.001",
               *words, folder=folder)


def refused(done, *parts):
    text = done.stderr
    ok(done.returncode != 0 and all(part in text for part in parts), f"refused with {parts}: {text[-300:]!r}")


def last(out, name):
    rows = [json.loads(line) for line in (SCRATCH / out / "metrics.jsonl").read_text().splitlines()]
    return [row[name] for row in rows if name in row][-1]


def weights(out, step):
    return (SCRATCH / out / f"step_{step:06d}" / "model" / "model.safetensors").read_bytes()


shutil.rmtree(SCRATCH, ignore_errors=True)
(SCRATCH / "elsewhere").mkdir(parents=True)
(SCRATCH / "corpus").write_text("".join(f"line {i}: the cat {i % 7} sat on the mat {i % 5}\n" for i in range(200)))
(SCRATCH / "other").write_text("".join(f"WORDS {i} OF A STRANGER, ALL IN CAPITALS {i % 9}\n" for i in range(200)))
size = ("--layers", "2", "--hidden", "64", "--vocab", "300")
done = train("made", "--data", "corpus", *size, "--steps", "12")
ok(done.returncode == 0, f"a run to start from: {done.stderr[-200:]}")
train("stranger", "--data", "other", *size, "--steps", "2")
ok(run("export", "made", "base").returncode == 0, "its folder")
tuned = ("--data", "corpus", "--from", "base")
done = train("adapted", *tuned, "--lora", "4", "--steps", "20", "--lr", "0.02")
ok(done.returncode == 0, f"an adapter of it: {done.stderr[-200:]}")
run("export", "adapted", "merged", "--merge")

refused(train("a", *tuned, "--distill", "1", "--teacher", "adapted", "--steps", "2"), "has an adapter", "dllm export RUN OUT --merge")
refused(train("a", *tuned, "--distill", "1", "--teacher", "stranger", "--steps", "2"), "has other tokens than the run", "token ")
refused(train("a", "--data", "corpus", *size, "--distill", "1", "--teacher", "./base", "--steps", "2"),
        "needs the tokenizer of its teacher", "--tokenizer ./base")
refused(train("a", *tuned, "--teacher", "./base", "--steps", "2"), "changes nothing", "align or distill")
refused(train("a", *tuned, "--align", "1", "--steps", "2"), "the model has none", "name a model as the teacher")

done = train("same", *tuned, "--distill", "1", "--teacher", "./base", "--steps", "1", "--lr", "0")
ok(done.returncode == 0 and abs(last("same", "distill")) < 1e-5, f"a teacher that is the student: {done.stderr[-200:]}")
done = train("taught", *tuned, "--distill", "1", "--align", "1", "--teacher", "merged", "--steps", "4")
ok(done.returncode == 0 and last("taught", "distill") > 1e-4 and last("taught", "align") > 1e-4, f"another teacher: {done.stderr[-200:]}")
done = run("train", "--out", os.path.join("..", "taught"), "--steps", "6", folder=SCRATCH / "elsewhere")
ok(done.returncode == 0 and last("taught", "step") == 6, f"goes on from another folder: {done.stderr[-300:]}")
done = train("lora", *tuned, "--lora", "4", "--align", "1", "--steps", "4")
ok(done.returncode == 0 and last("lora", "align") >= 0, f"the base teaches its adapter: {done.stderr[-200:]}")

# Earlier batches are aligned again, also after a resume.
again = ("--lora", "4", "--align", "1", "--replay", "6", "--replay-warmup", "3", "--replay-prob", "1", "--replay-weight", "0.5")
done = train("replayed", *tuned, *again, "--steps", "10")
ok(done.returncode == 0 and last("replayed", "replay") > 0, f"earlier batches are aligned again: {done.stderr[-200:]}")
train("halves", *tuned, *again, "--steps", "5")
ok((SCRATCH / "halves" / "step_000005" / "state" / "replay.safetensors").exists(), "a checkpoint has the kept batches")
done = train("halves", *tuned, "--steps", "10")
ok(done.returncode == 0 and [last("halves", name) for name in ("loss", "replay")] == [last("replayed", name) for name in ("loss", "replay")],
   f"a resumed run replays the same ones: {done.stderr[-200:]}")
refused(train("a", *tuned, "--lora", "4", "--replay", "60", "--steps", "2"), "has no alignment", "align above 0")

# Rounds of few-step distillation.
few = ("--data", "corpus", "--distill", "1", "--own-weight", "0", "--distill-steps", "2", "--distill-of", "4", "--warmup", "0")
done = train("round", *few, "--from", "./base", "--teacher", "./base", "--steps", "6")
ok(done.returncode == 0 and last("round", "distill") > 0, f"a round: {done.stderr[-300:]}")
train("again", *few, "--from", "./base", "--teacher", "./base", "--steps", "6")
ok(weights("again", 6) == weights("round", 6), "the same seed gives the same weights")
train("stopped", *few, "--from", "./base", "--teacher", "./base", "--steps", "3")
train("stopped", "--steps", "6")
ok(weights("stopped", 6) == weights("round", 6), "a run that was stopped gives the same weights")
done = run("export", "round", "student")
ok(done.returncode == 0, f"a student is exported: {done.stderr[-200:]}")
done = train("next", *few, "--from", "./student", "--teacher", "./student", "--steps", "2")
ok(done.returncode == 0, f"a student teaches the next round: {done.stderr[-300:]}")
done = train("own", *few, "--from", "./base", "--lora", "4", "--teacher-attention", "bidirectional", "--steps", "2")
ok(done.returncode == 0, f"the base teaches its adapter: {done.stderr[-300:]}")
refused(train("a", *few, "--from", "./base", "--lora", "4", "--steps", "2"), "its attention is causal", "--teacher-attention bidirectional")
refused(train("a", *few, "--from", "./base", "--teacher", "./base", "--distill-of", "1", "--steps", "2"), "distill_steps 2 is above distill_of 1")
refused(train("a", *few, "--from", "./base", "--teacher", "./base", "--objective", "uniform", "--steps", "2"), "objective uniform has none")
sys.exit(1 if failures else 0)
