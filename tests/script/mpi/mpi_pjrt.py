"""dllm under mpirun on devices of plugins: one mesh over the devices of all processes, on the fake plugin (tests/fake_plugin),
which keeps state as it is and computes nothing; how a job ends whose plugin fails, waits or belongs to one process; and the
launcher of TPU pods.

mpi_pjrt.py DLLM SCRATCH SOURCE FAKE_PLUGIN

Exit status 77: skipped, there is no mpirun or no libdllm_mpi.so.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import mpi_job
from mpi_job import ENVIRONMENT, TRAIN, arrays, end_of, ok, rank_processes, start

DLLM, SCRATCH, SOURCE, FAKE = (pathlib.Path(word).resolve() for word in sys.argv[1:5])
ENGINE = ["--engine.kind", "pjrt", "--engine.pjrt.cache", "off"]
# The fake plugin computes nothing: a step looks infinite, and a sample of the model would never end.
QUIET = ["--nonfinite", "skip", "--examples", "0", "--json"]
ON_FAKE = [*TRAIN, *ENGINE, "--engine.plugin", str(FAKE), "--mesh", "fsdp=4", *QUIET]


def run(settings, words):
    """A process for each of the settings; a single one runs without mpirun."""
    command = [] if len(settings) == 1 else ["mpirun"]
    for number, setting in enumerate(settings):
        command += [":"] if number else []
        command += ["-n", "1"] if len(settings) > 1 else []
        command += ["env", f"DLLM_FAKE_PLUGIN={setting}", str(DLLM), *words]
    began = time.monotonic()
    process = start(command)
    out, errors = process.communicate(timeout=120)
    done = subprocess.CompletedProcess(words, process.returncode, out, errors)
    done.seconds = time.monotonic() - began
    return done


def a_mesh_over_two_processes():
    alone = run(["devices=4"], [*ON_FAKE, "--out", "alone", "--steps", "4", "--save-every", "2"])
    ok(alone.returncode == 0, f"one process has 4 devices {alone.stderr[-400:]}")
    half = "devices=2;store_bytes=5000;meets=1"
    both = run([half, half], [*ON_FAKE, "--out", "both", "--steps", "4", "--save-every", "2"])
    ok(both.returncode == 0, f"2 processes have 2 devices each {both.stderr[-600:]}")
    wanted = arrays("alone/step_000004")
    ok(len(wanted) > 20 and arrays("both/step_000004") == wanted, "arrays of the checkpoint are gathered from both")
    files = list((SCRATCH / "both/step_000004/state").glob("*.safetensors"))
    ok(len(files) == 2, f"each process writes a share {files}")
    again = run([half, half], [*ON_FAKE, "--out", "alone", "--steps", "6"])
    ok(again.returncode == 0 and "step_000004" in again.stdout + again.stderr, f"2 processes go on from one's checkpoint {again.stderr[-400:]}")
    loaded = arrays("alone/step_000006")
    ok(all(loaded[name] == wanted[name] for name in wanted if name[0] == "model"), "and load the same weights")


def a_plugin_that_fails_in_one():
    words = [*ON_FAKE, "--out", "failing", "--steps", "2"]
    for name, other, expected in (
            ("fails", "devices=2;fail=PJRT_Client_Create", r"rank 1.*set to fail"),
            ("ends its process", "devices=2;crash=PJRT_Client_Create", r"rank 1\b"),
            ("has too few devices", "devices=1", r"needs 2 devices, .*process 1 of 2 has 1"),
            ("belongs to one process", "devices=2;joins=0", r"does not join the devices of 2 processes")):
        first = "devices=2;joins=0" if "joins=0" in other else "devices=2"
        done = run([first, other], words)
        ok(done.returncode != 0 and re.search(expected, done.stderr.replace("\n", " ")) is not None,
           f"a plugin that {name}: {done.stderr[:500]!r}")
        ok(done.seconds < 60, f"the job ends after {done.seconds:.0f} s")


def a_process_that_is_killed():
    """In a run of the plugin, which waits for all processes."""
    setting = "devices=2;meets=1;run_ms=20"
    words = ["mpirun", "-n", "2", "env", f"DLLM_FAKE_PLUGIN={setting}", str(DLLM), *ON_FAKE, "--out", "killed", "--steps", "100000"]
    process = start(words)
    end = time.monotonic() + 60
    while time.monotonic() < end and '"step":5,' not in mpi_job.text("killed/metrics.jsonl"):
        time.sleep(0.05)
    ok(time.monotonic() < end, "5 steps are taken")
    ranks = rank_processes(process.pid)
    ok(len(ranks) == 2, f"2 processes run: {ranks}")
    os.kill(ranks[1], signal.SIGKILL)
    began = time.monotonic()
    _, errors = end_of(process, 90)
    ok(process.returncode != 0 and time.monotonic() - began < 40, f"kill -9 ends the job after {time.monotonic() - began:.0f} s")
    ok(re.search(r"rank 1\b", errors) is not None, f"the message names rank 1: {errors[-400:]!r}")


def a_plugin_for_cpus():
    plugins = pathlib.Path(os.environ.get("DLLM_PLUGINS", SOURCE / "build/assets/plugins"))
    for name in ("pjrt_c_api_cpu_plugin.so", "xla_cpu_pjrt.so"):
        if not (plugins / name).exists():
            print(f"skipped: no {plugins / name}")
            continue
        words = [*TRAIN, *ENGINE, "--engine.plugin", str(plugins / name), "--engine.pjrt.client", "cpu_device_count=2",
                 "--mesh", "fsdp=4", "--out", "cpus", "--steps", "2"]
        done = run(["", ""], words)
        ok(done.returncode != 0 and "does not join the devices of 2 processes" in done.stderr, f"{name}: {done.stderr[:400]!r}")


def the_launcher_of_pods():
    script = SOURCE / "scripts/launch/tpu-pod"

    def pod(*words, **variables):
        environment = {key: value for key, value in ENVIRONMENT.items() if key not in ("HOSTS", "TPU_WORKER_HOSTNAMES")}
        return subprocess.run([script, *words], text=True, capture_output=True, cwd=SCRATCH, timeout=120,
                              env=dict(environment, **variables), check=False)

    lines = pod("--dry-run", "train", "--out", "a b", HOSTS="x,y,z", DLLM="/opt/dllm", GS_ACCESS_KEY_ID="hidden").stdout.splitlines()
    words = r"/opt/dllm train --out a\ b --engine.kind pjrt --engine.plugin tpu "
    ok(lines[:-1] == [f"{host}: {words}" for host in "xyz"], f"a command for every host {lines[:-1]}")
    ok(re.match(r"mpirun .*-x GS_ACCESS_KEY_ID .*-n 1 --host x /opt/dllm .* : -n 1 --host y /opt/dllm .* : -n 1 --host z /opt/dllm ",
                lines[-1]) is not None and "hidden" not in lines[-1], f"one mpirun, and names of variables alone {lines[-1]}")
    lines = pod("--dry-run", "train", TPU_WORKER_HOSTNAMES="x,y", DLLM="/opt/dllm").stdout.splitlines()
    ok(lines[1].startswith(r"y: env TPU_WORKER_ID=1 TPU_WORKER_HOSTNAMES=x\,y /opt/dllm train"), f"a worker has its number {lines[1]}")
    done = pod("--dry-run", "train")
    ok(done.returncode == 2 and "HOSTS names no host" in done.stderr, "hosts are wanted")
    done = pod(*TRAIN, *QUIET, "--engine.pjrt.cache", "off", "--mesh", "fsdp=2,tensor=2", "--out", "pod", "--steps", "2", HOSTS="localhost,localhost",
               DLLM=str(DLLM), PLUGIN=str(FAKE), DLLM_FAKE_PLUGIN="devices=2")
    ok(done.returncode == 0 and (SCRATCH / "pod/step_000002/COMMIT").exists(), f"a pod of two processes trains {done.stderr[-400:]}")


mpi_job.setup(DLLM, SCRATCH)
a_mesh_over_two_processes()
a_plugin_that_fails_in_one()
a_process_that_is_killed()
a_plugin_for_cpus()
the_launcher_of_pods()
sys.exit(mpi_job.failures > 0)
