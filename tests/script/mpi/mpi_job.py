"""Jobs of several processes for the tests of mpirun: their environment, starts, metrics, arrays and processes.

A test calls setup(DLLM, SCRATCH) first. It ends with exit status 77, skipped, where there is no mpirun or no libdllm_mpi.so.
"""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from cli_options import LINES  # noqa: E402

ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_hwloc_base_binding_policy="none",
                   OMPI_MCA_btl_vader_single_copy_mechanism="none")
# A model and a text that train in a moment.
TRAIN = ["train", "--data", "text", "--rows", "line", "--layers", "2", "--hidden", "128", "--vocab", "300", "--length", "32",
         "--batch", "8", "--lr", "0.003", "--eval-every", "0", "--engine.threads", "1"]
failures = 0
scratch = pathlib.Path()


def setup(dllm, folder):
    global scratch
    library = dllm.parent.parent / "lib" / "libdllm_mpi.so"
    if shutil.which("mpirun") is None or not library.exists():
        print(f"skipped: no mpirun, or no {library}")
        sys.exit(77)
    scratch = folder
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    (scratch / "text").write_text("\n".join(LINES) + "\n")


def ok(condition, what):
    global failures
    print(("ok   " if condition else "FAIL ") + what, flush=True)
    failures += not condition


def start(words, out=subprocess.PIPE, stop_seconds=1):
    """stop_seconds: what mpirun waits before it kills the processes of a job that has failed or is interrupted; it waits so long,
    and longer, even where none of them is left."""
    environment = dict(ENVIRONMENT, OMPI_MCA_odls_base_sigkill_timeout=str(stop_seconds))
    return subprocess.Popen(words, cwd=scratch, env=environment, text=True, stdout=out, stderr=subprocess.PIPE,
                            stdin=subprocess.DEVNULL)


def text(name):
    path = scratch / name
    return path.read_text() if path.exists() else ""


def metrics(out):
    """(step, loss, gradient norm) of every step. A kill may leave half a line at the end."""
    lines = [json.loads(line) for line in text(f"{out}/metrics.jsonl").split("\n")[:-1]]
    return [(line["step"], line["loss"], line["grad_norm"]) for line in lines if "grad_norm" in line]


def arrays(checkpoint):
    """{(folder, tensor): (type, shape, bytes)} of a checkpoint, however its files share them."""
    found = {}
    for path in sorted((scratch / checkpoint).rglob("*.safetensors")):
        data = path.read_bytes()
        begin = 8 + struct.unpack("<Q", data[:8])[0]
        for name, about in json.loads(data[8:begin]).items():
            if name != "__metadata__":
                first, last = about["data_offsets"]
                found[path.parent.name, name] = (about["dtype"], about["shape"], data[begin + first:begin + last])
    return found


def committed(out):
    """The step of the last checkpoint; 0: there is none."""
    return max((int(path.parent.name[5:]) for path in (scratch / out).glob("step_??????/COMMIT")), default=0)


def end_of(job, seconds):
    """Waits for a job; what it printed. mpirun of Open MPI 4 sometimes waits for itself for ever after a rank was killed (in
    PMIx_server_finalize). It is killed when it has had no rank for 20 s."""
    until, lonely = time.monotonic() + seconds, 0
    while True:
        try:
            return job.communicate(timeout=2)
        except subprocess.TimeoutExpired:
            lonely = 0 if rank_processes(job.pid) else lonely + 1
            if lonely >= 10 or time.monotonic() > until:
                print(f"     {'no process of the job is left, and ' if lonely else ''}mpirun does not end: killed", flush=True)
                job.kill()


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
