"""dllm under mpirun: the losses of thread ranks to the bit, those of one rank nearly, equal tokens, checkpoints that go
on anywhere, and no hang when a rank fails, is killed or interrupted.

mpi_command.py DLLM SCRATCH SOURCE

Exit status 77: skipped, there is no mpirun or no libdllm_mpi.so.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import mpi_job
from mpi_job import ENVIRONMENT, TRAIN, arrays, committed, end_of, metrics, ok, rank_processes, start

DLLM, SCRATCH, SOURCE = (pathlib.Path(word).resolve() for word in sys.argv[1:4])


def run(processes, *words):
    """processes 0: without mpirun."""
    launcher = ["mpirun", "-n", str(processes)] if processes else []
    job = start([*launcher, str(DLLM), *words])
    out, errors = job.communicate(timeout=240)
    return subprocess.CompletedProcess(words, job.returncode, out, errors)


def train(processes, out, *words):
    done = run(processes, *TRAIN, "--out", out, *words)
    ok(done.returncode == 0, f"{processes or 'no'} processes train {out} {' '.join(words)} {done.stderr[-600:] if done.returncode else ''}")
    return done


def examples(out):
    """Lines of examples.jsonl without their times."""
    lines = [json.loads(line) for line in (SCRATCH / out / "examples.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


def near(left, right):
    return len(left) == len(right) > 0 and all(
        a[0] == b[0] and abs(a[1] - b[1]) <= 1e-5 * abs(b[1]) for a, b in zip(left, right))


def losses_and_checkpoints():
    train(0, "one", "--steps", "20", "--save-every", "10")
    for processes, mesh, typed in ((4, "fsdp=2,tensor=2", True), (2, "tensor=2", True), (2, "data=2", False)):
        flags = ["--steps", "20", "--save-every", "10"]
        threads, mpi = f"threads_{mesh}", f"mpi_{mesh}"
        train(0, threads, "--mesh", mesh, *flags)
        done = train(processes, mpi, *(["--mesh", mesh] if typed else []), *flags)
        ok(metrics(mpi) == metrics(threads), f"{mesh}: {processes} processes have the bits of threads")
        ok(near(metrics(mpi), metrics("one")), f"{mesh}: {processes} processes have the losses of one rank within 1e-5")
        ok(arrays(f"{mpi}/step_000020") == arrays(f"{threads}/step_000020") != {}, f"{mesh}: equal arrays in the checkpoint")
        sizes = [path.stat().st_size for path in (SCRATCH / mpi / "step_000020/state").glob("*.safetensors")]
        ok(len(sizes) == processes and max(sizes) < 0.75 * sum(sizes), f"{mesh}: each process writes its share {sizes}")
        ok(examples(mpi) == examples(threads) != [], f"{mesh}: examples are written once, with the predictions of threads")
        ok(done.stderr.count("next: dllm generate") == 1, f"{mesh}: one process prints")
        ok(not list((SCRATCH / mpi).rglob("*.partial")) and not (SCRATCH / mpi / "LOCK").exists(), f"{mesh}: nothing is left over")


def resumes():
    mesh = ["--mesh", "fsdp=2,tensor=2"]
    shutil.copytree(SCRATCH / "mpi_fsdp=2,tensor=2", SCRATCH / "back")
    shutil.rmtree(SCRATCH / "back" / "step_000020")
    for name, processes, flags in (("again", 4, mesh), ("threads", 0, mesh), ("alone", 0, [])):
        shutil.copytree(SCRATCH / "back", SCRATCH / name)
        done = train(processes, name, *flags, "--steps", "20")
        ok("resumed from" in done.stderr, f"{name} resumes a checkpoint of 4 processes")
        wanted = metrics("mpi_fsdp=2,tensor=2")
        ok(metrics(name) == wanted if flags else near(metrics(name), wanted), f"{name}: goes on with the losses of 4 processes")
    train(4, "alone", *mesh, "--steps", "24")
    train(0, "again", *mesh, "--steps", "24")
    ok(near(metrics("alone"), metrics("again")), "4 processes resume a checkpoint of one rank")


def decodes():
    words = ["generate", "--model", "one", "--prompt", "the cat", "--length", "24", "--seed", "3", "--quiet"]
    wanted = run(0, *words).stdout
    ok(len(wanted) > 10, f"one rank decodes {wanted!r}")
    for processes in (2, 4):
        for policy in ("low_confidence", "threshold"):
            flags = ["--mesh", f"tensor={processes}" if processes == 2 else "fsdp=2,tensor=2", "--policy", policy]
            alone = run(0, *words, "--policy", policy).stdout
            done = run(processes, *words, *flags)
            ok(done.stdout == alone, f"{processes} processes decode the same tokens with {policy} {done.stderr[-300:]}")
    done = run(2, *words, "--mesh", "data=2")
    ok(done.stdout == wanted, f"a request on one of 2 processes gives the same tokens {done.stderr[-300:]}")
    done = run(2, *words, "--trace", "steps")
    ok(done.returncode == 0 and (SCRATCH / "steps").exists(), "one trace is written")


def mistakes():
    done = run(2, *TRAIN, "--out", "wrong", "--mesh", "fsdp=2,tensor=2", "--steps", "2")
    ok(done.returncode != 0 and "needs 4 processes, 2 were started" in done.stderr and "mpirun -n 4" in done.stderr,
       "a mesh of 4 with 2 processes is refused with the numbers")
    ok(done.stderr.count("dllm: a mesh of") == 1, "the first process prints it without its rank")
    done = run(2, "tokenize", "--tokenizer", "one", "a text")
    ok(done.returncode != 0 and "runs in one process, and 2 were started" in done.stderr, "other commands are refused")
    done = run(2, *TRAIN, "--out", "wrong", "--batch", "7", "--steps", "2")
    ok(done.returncode != 0 and "7 rows does not divide by the 2 ranks" in done.stderr, "a batch that does not divide")


def a_rank_that_fails():
    """The second process differs from the first one."""
    train_words = [*TRAIN, "--out", "failing", "--steps", "4"]
    for words, expected in ((["--memory-limit", "3000000"], r"rank 1"), (["--dataset.text-key", "x", "--data", "missing"], r"rank 1")):
        began = time.monotonic()
        job = start(["mpirun", "-n", "1", str(DLLM), *train_words, ":", "-n", "1", str(DLLM), *train_words, *words])
        _, errors = end_of(job, 60)
        ok(job.returncode != 0 and re.search(expected, errors), f"rank 1 with {words[0]} fails and is named: {errors[:300]!r}")
        ok(time.monotonic() - began < 40, f"{words[0]}: the job ends")


def runs(process):
    """False for one that has ended and that its parent has not waited for."""
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def begin(out, stop_seconds=1):
    job = start(["mpirun", "-n", "4", str(DLLM), *TRAIN, "--mesh", "fsdp=2,tensor=2", "--out", out, "--steps", "100000",
                 "--save-every", "5"], stop_seconds=stop_seconds)
    end = time.monotonic() + 60
    while time.monotonic() < end and not list((SCRATCH / out).glob("step_??????/COMMIT")):
        time.sleep(0.05)
    return job


def a_rank_that_is_killed():
    for victim in (2, 0):
        out = f"killed_{victim}"
        job = begin(out)
        ranks = rank_processes(job.pid)
        ok(len(ranks) == 4, f"4 ranks run: {ranks}")
        os.kill(ranks[victim], signal.SIGKILL)
        began = time.monotonic()
        _, errors = end_of(job, 60)
        ok(job.returncode != 0 and time.monotonic() - began < 40, f"kill -9 of rank {victim} ends the job")
        ok(re.search(rf"rank {victim}\b", errors), f"the message names rank {victim}: {errors[-500:]!r}")
        end = time.monotonic() + 10
        while time.monotonic() < end and any(map(runs, ranks.values())):
            time.sleep(0.1)
        ok(not any(map(runs, ranks.values())), "no process is left")
        last = committed(out)
        done = train(2, out, "--mesh", "tensor=2", "--steps", str(last + 3))
        ok(f"step_{last:06d}" in done.stderr, f"2 processes go on from step {last}")


def an_interrupt():
    job = begin("interrupted", stop_seconds=8)  # time to save
    began = time.monotonic()
    job.send_signal(signal.SIGINT)
    _, errors = job.communicate(timeout=60)
    ok(time.monotonic() - began < 20, "Ctrl-C ends the job")
    ok("interrupted; the same command continues from here" in errors, f"Ctrl-C is said once: {errors[-500:]!r}")
    last = committed("interrupted")
    taken = metrics("interrupted")[-1][0]
    ok(last == taken, f"the last step {taken} is saved ({last})")


def launch_scripts():
    done = subprocess.run([SOURCE / "scripts/launch/mpirun", "--dry-run", "4", "train", "--out", "a b"], text=True,
                          capture_output=True, env=dict(ENVIRONMENT, DLLM="/opt/dllm", HOSTS="x:2,y:2"), check=False)
    ok(re.match(r"mpirun -n 4 .*--host x:2\\?,y:2 .*/opt/dllm train --out a\\ b *$", done.stdout), f"dry run of mpirun {done.stdout!r}")
    done = subprocess.run(["bash", SOURCE / "scripts/launch/slurm.sbatch", "train", "--steps", "5"], text=True, capture_output=True,
                          env=dict(ENVIRONMENT, DRY_RUN="1"), check=False)
    ok(re.match(r"srun .*--kill-on-bad-exit=1 .*dllm train --steps 5 *$", done.stdout), f"dry run of Slurm {done.stdout!r}")


mpi_job.setup(DLLM, SCRATCH)
losses_and_checkpoints()
resumes()
decodes()
mistakes()
a_rank_that_fails()
a_rank_that_is_killed()
an_interrupt()
launch_scripts()
sys.exit(mpi_job.failures > 0)
