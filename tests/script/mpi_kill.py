"""kill -9 of a random rank at random moments: a run of four processes goes on from its last committed checkpoint, and ends
with the numbers of a run that was left alone, to the bit.

mpi_kill.py DLLM SCRATCH TRIALS

The ranks and moments come from a fixed seed. Exit status 77: skipped, there is no mpirun or no libdllm_mpi.so.
"""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

from cli_options import LINES

DLLM, SCRATCH = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
TRIALS = int(sys.argv[3])
LIBRARY = DLLM.parent.parent / "lib" / "libdllm_mpi.so"
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_hwloc_base_binding_policy="none",
                   OMPI_MCA_btl_vader_single_copy_mechanism="none", OMPI_MCA_odls_base_sigkill_timeout="5")
STEPS, EVERY = 24, 2
TRAIN = ["train", "--data", "text", "--rows", "line", "--layers", "2", "--hidden", "128", "--vocab", "300", "--length", "32",
         "--batch", "8", "--lr", "0.003", "--eval-every", "0", "--engine.threads", "1", "--mesh", "fsdp=2,tensor=2",
         "--steps", str(STEPS), "--save-every", str(EVERY)]
failures = 0


def ok(condition, what):
    global failures
    print(("ok   " if condition else "FAIL ") + what, flush=True)
    failures += not condition


def start(out):
    return subprocess.Popen(["mpirun", "-n", "4", str(DLLM), *TRAIN, "--out", out], cwd=SCRATCH, env=ENVIRONMENT, text=True,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)


def rank_processes(parent):
    """Process numbers of the ranks of a job, by rank."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            about = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            variables = (folder / "environ").read_bytes().split(b"\0") if int(about[1]) == parent else []
        except OSError:
            continue
        for line in variables:
            if line.startswith(b"OMPI_COMM_WORLD_RANK="):
                found[int(line.split(b"=")[1])] = int(folder.name)
    return found


def committed(out):
    """The step of the last checkpoint; 0: there is none."""
    return max((int(path.parent.name[5:]) for path in (SCRATCH / out).glob("step_??????/COMMIT")), default=0)


def metrics(out):
    """(step, loss, gradient norm) of every step. A kill may leave half a line at the end."""
    path = SCRATCH / out / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []
    return [(line["step"], line["loss"], line["grad_norm"]) for line in lines if "grad_norm" in line]


def arrays(out):
    folder = SCRATCH / out / f"step_{STEPS:06d}"
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.safetensors"))}


def kill_one(job, chance, seconds):
    """Kills a rank after a part of `seconds`; its number, or None: the job ended before."""
    victim, moment = chance.randrange(4), time.monotonic() + chance.random() * seconds
    while job.poll() is None and time.monotonic() < moment:
        time.sleep(0.005)
    process = rank_processes(job.pid).get(victim)
    if process is None:
        return None
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return None
    return victim


def finished(out, reference):
    ok(metrics(out) == reference[0], "the losses are those of a run that was left alone, to the bit")
    ok(arrays(out) == reference[1] != {}, "so are the arrays of the last checkpoint")
    ok(not list((SCRATCH / out).rglob("*.partial")), "nothing half-written is left")
    shutil.rmtree(SCRATCH / out)


def trials(reference, seconds):
    chance, killed, goes_on = random.Random(13), 0, 0
    for trial in range(TRIALS):
        before = committed("run")
        job = start("run")
        victim = kill_one(job, chance, seconds)
        _, errors = job.communicate(timeout=120)
        if found := re.search(r"resumed from \S*step_(\d+)", errors):  # killed before it says so: nothing to compare
            goes_on += 1
            ok(int(found[1]) == before, f"trial {trial} goes on from step {before}, found {found[1]}")
        steps = metrics("run")
        lost = (steps[-1][0] if steps else 0) - committed("run")
        ok(lost <= 2 * EVERY, f"trial {trial}: rank {victim} killed, {lost} steps after the last checkpoint")
        killed += victim is not None and job.returncode != 0
        if job.returncode == 0:
            finished("run", reference)
        elif victim is None:
            ok(False, f"trial {trial} failed by itself: {errors[-500:]!r}")
    ok(killed * 2 >= TRIALS and goes_on > 0, f"{killed} of {TRIALS} jobs were killed, {goes_on} went on from a checkpoint")


if shutil.which("mpirun") is None or not LIBRARY.exists():
    print(f"skipped: no mpirun, or no {LIBRARY}")
    sys.exit(77)
shutil.rmtree(SCRATCH, ignore_errors=True)
SCRATCH.mkdir(parents=True)
(SCRATCH / "text").write_text("\n".join(LINES) + "\n")
began = time.monotonic()
alone = start("alone")
_, said = alone.communicate(timeout=240)
whole = time.monotonic() - began
ok(alone.returncode == 0 and len(metrics("alone")) == STEPS, f"a run that is left alone: {whole:.1f} s {said[-300:] if alone.returncode else ''}")
expected = (metrics("alone"), arrays("alone"))
trials(expected, whole)
last = start("run")
_, said = last.communicate(timeout=240)
ok(last.returncode == 0, f"the run ends {said[-300:] if last.returncode else ''}")
finished("run", expected)
sys.exit(failures > 0)
