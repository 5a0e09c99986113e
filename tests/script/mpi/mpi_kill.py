"""kill -9 of a random rank at random moments: a run of four processes goes on from its last committed checkpoint, and ends
with the numbers of a run that was left alone, to the bit.

mpi_kill.py DLLM SCRATCH TRIALS

The ranks and moments come from a fixed seed. Exit status 77: skipped, there is no mpirun or no libdllm_mpi.so.
"""
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import mpi_job
from mpi_job import arrays, committed, metrics, ok, rank_processes

DLLM, SCRATCH = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
TRIALS = int(sys.argv[3])
STEPS, EVERY = 24, 2


def start(out):
    return mpi_job.start(["mpirun", "-n", "4", str(DLLM), *mpi_job.TRAIN, "--mesh", "fsdp=2,tensor=2", "--steps", str(STEPS),
                          "--save-every", str(EVERY), "--out", out], out=subprocess.DEVNULL)


def result(out):
    """What a finished run is compared by."""
    return metrics(out), arrays(f"{out}/step_{STEPS:06d}")


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
    losses, last = result(out)
    ok(losses == reference[0], "the losses are those of a run that was left alone, to the bit")
    ok(last == reference[1] != {}, "so are the arrays of the last checkpoint")
    ok(not list((SCRATCH / out).rglob("*.partial")), "nothing half-written is left")
    shutil.rmtree(SCRATCH / out)


def trials(reference, seconds):
    chance, trial, killed, goes_on = random.Random(13), 0, 0, 0
    while killed < TRIALS and trial < 4 * TRIALS:
        trial += 1
        before, began = committed("run"), time.monotonic()
        job = start("run")
        victim = kill_one(job, chance, seconds)
        _, errors = mpi_job.end_of(job, 600)
        if found := re.search(r"resumed from \S*step_(\d+)", errors):  # killed before it says so: nothing to compare
            goes_on += 1
            ok(int(found[1]) == before, f"trial {trial} goes on from step {before}, found {found[1]}")
        steps = metrics("run")
        lost = (steps[-1][0] if steps else 0) - committed("run")
        ok(lost <= 2 * EVERY, f"trial {trial}: rank {victim} killed, {lost} steps after the last checkpoint")
        killed += victim is not None and job.returncode != 0
        if victim is None:  # the machine has become faster: the next moments are sooner
            seconds = min(seconds, time.monotonic() - began)
        if job.returncode == 0:
            finished("run", reference)
        elif victim is None:
            ok(False, f"trial {trial} failed by itself: {errors[-500:]!r}")
    ok(killed == TRIALS and goes_on > 0, f"{killed} of {trial} jobs were killed, {goes_on} went on from a checkpoint")


mpi_job.setup(DLLM, SCRATCH)
began = time.monotonic()
alone = start("alone")
_, said = mpi_job.end_of(alone, 600)
whole = time.monotonic() - began
ok(alone.returncode == 0 and len(metrics("alone")) == STEPS, f"a run that is left alone: {whole:.1f} s {said[-300:] if alone.returncode else ''}")
expected = result("alone")
trials(expected, whole)
last = start("run")
_, said = mpi_job.end_of(last, 600)
ok(last.returncode == 0, f"the run ends {said[-300:] if last.returncode else ''}")
finished("run", expected)
sys.exit(mpi_job.failures > 0)
