"""Training into an object store and decoding from it, with a server that checks signatures and is killed on the way.

object_store.py DLLM SCRATCH SERVER

SERVER is versitygw, which scripts/fetch-s3-server makes. Exit status 77: skipped, there is no server or no libcurl.
"""
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

from cli_options import LINES

DLLM, SCRATCH, SERVER = (pathlib.Path(word).resolve() for word in sys.argv[1:4])
ACCESS, SECRET = "accessofthetest", "Secret/of+the=test0123456789"
LARGE = ["--layers", "4", "--hidden", "256", "--vocab", "2000"]  # a state of more than one part
SMALL = ["--layers", "1", "--hidden", "64", "--vocab", "300"]
draw = random.Random(13)
failures = 0
printed = []  # all that the program ever wrote


def ok(condition, what):
    global failures
    print(("ok   " if condition else "FAIL ") + what, flush=True)
    failures += not condition


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Store:
    def __init__(self):
        self.port, self.process = free_port(), None
        self.objects = SCRATCH / "objects"
        for name in ("objects/bucket", "sidecar"):
            (SCRATCH / name).mkdir(parents=True)
        self.log = open(SCRATCH / "server.log", "w")

    def start(self):
        self.process = subprocess.Popen(
            [str(SERVER), "--access", ACCESS, "--secret", SECRET, "--port", f"127.0.0.1:{self.port}", "--quiet",
             "posix", "--sidecar", str(SCRATCH / "sidecar"), str(self.objects)], stdout=self.log, stderr=self.log)
        for _ in range(300):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/bucket", timeout=5)
            except urllib.error.HTTPError:
                return True  # it wants a signature
            except OSError:
                if self.process.poll() is not None:
                    return False
                time.sleep(0.1)
        return False

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def files(self, below):
        folder = self.objects / "bucket" / below
        return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def environment(store, **more):
    made = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "GS_"))}
    made.update(AWS_ENDPOINT_URL=f"http://127.0.0.1:{store.port}", AWS_REGION="us-east-1", AWS_ACCESS_KEY_ID=ACCESS,
                AWS_SECRET_ACCESS_KEY=SECRET, DLLM_STAGING=str(SCRATCH / "staging"), no_proxy="127.0.0.1")
    return {**made, **more}


def why(done):
    return done.stderr[-500:] if done.returncode else ""


def start(store, *words, **more):
    return subprocess.Popen([str(DLLM), *words], cwd=SCRATCH, env=environment(store, **more), text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)


def finish(job):
    out, errors = job.communicate(timeout=240)
    printed.append(out + errors)
    return subprocess.CompletedProcess(job.args, job.returncode, out, errors)


def run(store, *words, **more):
    return finish(start(store, *words, **more))


def train_words(out, steps, shape, *words):
    return ["train", "--data", "text", "--rows", "line", "--length", "32", "--batch", "4", "--eval-every", "0", "--examples", "0",
            "--engine.threads", "2", *shape, "--out", out, "--steps", str(steps), *words]


def run_and_resume(store):
    done = run(store, *train_words("s3://bucket/runs/first", 4, SMALL, "--save-every", "2"))
    ok(done.returncode == 0, f"trains into the store {why(done)}")
    run(store, *train_words("local", 4, SMALL, "--save-every", "2"))
    local = {str(path.relative_to(SCRATCH / "local/step_000004")): path.read_bytes()
             for path in (SCRATCH / "local/step_000004").rglob("*") if path.is_file()}
    there = store.files("runs/first/step_000004")
    ok(set(there) == set(local), f"the files of a local checkpoint: {sorted(set(there) ^ set(local))}")
    ok(all(there[name] == local[name] for name in local if name.endswith(".safetensors")), "and their bytes")

    generate = ["generate", "--prompt", "line 7: the", "--length", "16"]
    from_store = run(store, *generate, "--model", "s3://bucket/runs/first")
    ok(from_store.returncode == 0 and from_store.stdout == run(store, *generate, "--model", "local").stdout,
       f"generates from the store what it does from a folder {why(from_store)}")
    for place in ("runs/first/step_000004", "runs/first/step_000004/model", "runs/first/step_000004/model/model.safetensors"):
        done = run(store, "inspect", "s3://bucket/" + place, "--verify")
        ok(done.returncode == 0 and "model.embed_tokens.weight" in done.stdout, f"inspect --verify {place} {why(done)}")

    for name in ("first", "local"):
        out = "s3://bucket/runs/first" if name == "first" else "local"
        done = run(store, *train_words(out, 6, SMALL, "--keep-last", "2"))
        ok(done.returncode == 0 and f"resumed from {out}/step_000004" in done.stderr, f"{out} goes on {why(done)}")
    ok(store.files("runs/first/step_000006")["state/rank_000.safetensors"] ==
       (SCRATCH / "local/step_000006/state/rank_000.safetensors").read_bytes(), "to the bits of a local run")
    ok(sorted(path.name for path in (store.objects / "bucket/runs/first").iterdir()) == ["best", "step_000004", "step_000006"],
       "and keeps two checkpoints, and the best one")
    shutil.rmtree(SCRATCH / "staging")  # another machine
    done = run(store, *train_words("s3://bucket/runs/first", 7, SMALL))
    ok(done.returncode == 0 and "resumed from s3://bucket/runs/first/step_000006" in done.stderr,
       f"another machine goes on {why(done)}")


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end and not condition():
        time.sleep(0.005)
    return condition()


def killed_in_an_upload(store, trials):
    """The server dies in the middle of a save, comes back a second later, and the run ends as if nothing had happened."""
    for trial in range(trials):
        place = f"runs/killed_{trial}"
        folder = store.objects / "bucket" / place / "step_000002"
        job = start(store, *train_words(f"s3://bucket/{place}", 2, LARGE, "--save-every", "1"))
        began = wait_for(lambda: (folder / "COMMIT.partial").exists() or job.poll() is not None)
        time.sleep(draw.uniform(0, 0.4))
        store.kill()
        was_whole = (folder / "COMMIT").exists()
        time.sleep(1)
        ok(store.start(), "the server is back")
        done = finish(job)
        ok(began and done.returncode == 0, f"trial {trial}: the save ends by retries{' (it was whole)' if was_whole else ''} {why(done)}")
        done = run(store, "inspect", f"s3://bucket/{place}/step_000002", "--verify")
        ok(done.returncode == 0, f"trial {trial}: and is whole {why(done)}")


def dead_for_good(store):
    """No server comes back: an error that names it, and the former checkpoint stays the latest."""
    place = "runs/dead"
    ok(run(store, *train_words(f"s3://bucket/{place}", 1, LARGE)).returncode == 0, "a first checkpoint")
    job = start(store, *train_words(f"s3://bucket/{place}", 2, LARGE), AWS_MAX_ATTEMPTS="3")
    wait_for(lambda: (store.objects / "bucket" / place / "step_000002/COMMIT.partial").exists() or job.poll() is not None)
    store.kill()
    done = finish(job)
    ok(done.returncode != 0 and "did not answer" in done.stderr and f"s3://bucket/{place}/step_000002" in done.stderr,
       f"a clear error: {done.stderr.strip().splitlines()[-2:]}")
    done = run(store, *train_words(f"s3://bucket/{place}", 2, LARGE), AWS_MAX_ATTEMPTS="2")
    ok(done.returncode != 0 and "did not answer" in done.stderr, "a store that does not answer is not an empty run")
    store.start()
    done = run(store, "inspect", f"s3://bucket/{place}")
    ok(done.returncode == 0 and "step_000001" in done.stdout, f"the former checkpoint is the latest")
    done = run(store, *train_words(f"s3://bucket/{place}", 2, LARGE))
    ok(done.returncode == 0 and "step_000001" in done.stderr, "and the run goes on from it")
    ok(not (store.objects / "bucket" / place / "step_000002/COMMIT.partial").exists(), "without what was left")


def clear_errors(store):
    wrong = "WrongSecret/0123456789"
    done = run(store, "generate", "--model", "s3://bucket/runs/first", "--prompt", "a", AWS_SECRET_ACCESS_KEY=wrong)
    ok(done.returncode != 0 and wrong not in done.stderr and "AWS_SECRET_ACCESS_KEY" in done.stderr,
       f"a wrong secret: {done.stderr.strip()[:300]}")
    done = run(store, "generate", "--model", "s3://bucket/runs/none", "--prompt", "a")
    ok(done.returncode != 0 and "s3://bucket/runs/none" in done.stderr, f"no such place: {done.stderr.strip()[:200]}")
    done = run(store, *train_words("s3://no-such-bucket/x", 1, SMALL))
    ok(done.returncode != 0 and "NoSuchBucket" in done.stderr, f"no such bucket: {done.stderr.strip()[:200]}")
    done = run(store, "generate", "--model", "s3://bucket/runs/first", "--prompt", "a", DLLM_CURL_LIBRARY="/nowhere/libcurl.so")
    ok(done.returncode != 0 and "libcurl" in done.stderr, f"no libcurl: {done.stderr.strip()[:200]}")
    done = run(store, *train_words("s3://bucket/runs/first", 8, SMALL, "--fresh"))
    ok(done.returncode != 0 and "--fresh does not remove objects" in done.stderr, f"--fresh: {done.stderr.strip()[:200]}")


def main():
    if not os.access(SERVER, os.X_OK):
        print("skipped: there is no S3 server (scripts/fetch-s3-server makes one)")
        return 77
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    (SCRATCH / "text").write_text("\n".join(LINES * 4))
    store = Store()
    try:
        if not store.start():
            print("skipped: the S3 server does not start here: " + (SCRATCH / "server.log").read_text()[-300:])
            return 77
        done = run(store, "inspect", "s3://bucket/none")
        if "libcurl" in done.stderr:
            print("skipped: this system has no libcurl")
            return 77
        run_and_resume(store)
        killed_in_an_upload(store, 4)
        dead_for_good(store)
        clear_errors(store)
        written = "".join(printed)
        ok(SECRET not in written and ACCESS not in written, "no key in anything that was printed")
        rows = "".join(path.read_text(errors="replace") for path in (SCRATCH / "staging").rglob("*.json*"))
        ok(SECRET not in rows and ACCESS not in rows, "nor in the files of a run")
    finally:
        if store.process is not None and store.process.poll() is None:
            store.kill()
    return 1 if failures else 0


sys.exit(main())
