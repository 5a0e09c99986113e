"""Models by name: dllm pull against a hub of this test that is slow, lies, redirects and ends in the middle.

hub.py DLLM SCRATCH

FAULTS is the table of faults. Exit status 77: skipped, there is no libcurl.
"""
import hashlib
import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from cli_options import LINES, Program  # noqa: E402
from hub_server import COMMIT, Answer, Hub, Repo, run_on_small_disk  # noqa: E402

DLLM, SCRATCH = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
program = Program(str(DLLM), SCRATCH)
ok = program.ok
hub = Hub()
TOKEN = "hf_TokenOfTheTest0123"
NAME = "tester/tiny"
OTHER = "f" * 40

CONFIG = json.dumps({"model_type": "llada", "architectures": ["LLaDAModelLM"], "d_model": 48, "n_heads": 4, "n_layers": 2,
                     "mlp_hidden_size": 80, "vocab_size": 126, "embedding_size": 128, "max_sequence_length": 2048,
                     "mask_token_id": 125, "rope": True}).encode()
WEIGHTS = b"".join(hashlib.sha256(b"%d" % i).digest() for i in range(10_000))  # 320,000 bytes
FILES = {"config.json": CONFIG, "tokenizer.json": b"{}", "generation_config.json": b'{"b": 2}', "README.md": b"# x",
         "model.safetensors": WEIGHTS, "pytorch_model.bin": b"never loaded", "onnx/model.safetensors": b"never loaded"}


def repo(**changes):
    return Repo({**FILES, **changes}, large=("model.safetensors", "pytorch_model.bin"))


def environment(cache, **more):
    return hub.environment(SCRATCH, cache, **{"HF_TOKEN": TOKEN, **more})


def pull(cache, *words, before=None, command="pull", timeout=60, **more):
    return subprocess.run([str(DLLM), command, *words], cwd=SCRATCH, env=environment(cache, **more), text=True,
                          capture_output=True, timeout=timeout, preexec_fn=before)


def new_cache(name="cache"):
    cache = SCRATCH / name
    shutil.rmtree(cache, ignore_errors=True)
    return cache


def folder(cache, key=NAME):
    return cache / ("models--" + key.replace("/", "--"))


def snapshot(cache, commit=COMMIT, key=NAME):
    return folder(cache, key) / "snapshots" / commit


def names_below(path):
    return {str(entry.relative_to(path)) for entry in path.rglob("*") if not entry.is_dir()}


def is_blob(seen):
    return seen.method == "GET" and (seen.server == "store" or "/resolve/" in seen.path)


def of_weights(seen):
    return seen.server == "store" and seen.method == "GET"


def is_list(seen):
    return seen.path.startswith("/api/")


def times(count, picks, answer):
    """Sends `answer` to the first `count` requests that `picks` takes. answer: an Answer, or a function of the usual one."""
    left = [count]

    def hook(seen, usual):
        if not picks(seen) or left[0] <= 0:
            return None
        left[0] -= 1
        return answer(usual) if callable(answer) else answer

    return hook


def always(picks, answer):
    return times(10 ** 9, picks, answer)


def changed(**changes):
    """The usual answer with other members."""
    def make(usual):
        made = Answer(usual.status, usual.body, usual.headers)
        for key, value in changes.items():
            setattr(made, key, value)
        return made
    return make


def with_headers(**headers):
    def make(usual):
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        kept = {key: value for key, value in usual.headers.items() if key not in named}
        return Answer(usual.status, usual.body, {**kept, **{k: v for k, v in named.items() if v is not None}})
    return make


def moved(status, to, only=lambda seen: True):
    """A redirect of the hub's paths to the same path below /moved, at `to`: "" is the same host, by a relative path."""
    def hook(seen, usual):
        if seen.path.startswith("/moved"):
            was_at, seen.path, seen.server = seen.server, seen.path.removeprefix("/moved"), "hub"
            answer, seen.server = hub._usual(seen), was_at
            return answer
        if seen.server == "hub" and only(seen):
            return Answer(status, b"", {"Location": to() + "/moved" + seen.path})
        return None
    return hook


def listing_with(path, **fields):
    made = repo().listing()
    made["siblings"].append({"rfilename": path, "size": 3, **fields})
    return Answer(200, json.dumps(made).encode())


def listing_of(text):
    return always(is_list, Answer(200, text if isinstance(text, bytes) else json.dumps(text).encode()))


def is_head_of(part):
    return lambda seen: seen.method == "HEAD" and part in seen.path


LOADED = None  # the pull succeeds and every file is right
HEAD, GET = "HEAD", "GET"
RETRY = ["--attempts", "3"]


# name: hook, words of the error or LOADED, more words of the command line
FAULTS = {
    # ---- a transfer that does not come through ----
    "the connection ends before the answer": (times(1, of_weights, Answer(drop=True)), LOADED),
    "the connection ends after 1000 bytes": (times(1, of_weights, changed(cut=1000)), LOADED),
    "the connection ends three times, after 100 kB each": (times(3, of_weights, changed(cut=100_000)), LOADED),
    "the connection always ends without a byte": (always(of_weights, Answer(drop=True)), ["model.safetensors of model tester/tiny cannot be loaded in 2 attempts"]),
    "a slow server": (times(1, lambda s: "tokenizer.json" in s.path and s.method == GET, changed(pause=0.3)), LOADED),
    "the list: the connection ends": (times(1, is_list, Answer(drop=True)), LOADED),
    "the list always ends": (always(is_list, Answer(drop=True)), ["cannot be loaded in 2 attempts"]),
    "the head: the connection ends": (times(1, is_head_of("config.json"), Answer(drop=True)), LOADED),
    "the list is cut in the middle": (times(1, is_list, changed(cut=50)), LOADED),
    # ---- statuses that pass ----
    "503 twice": (times(2, of_weights, Answer(503)), LOADED, RETRY),
    "503 for good": (always(of_weights, Answer(503)), ["status 503", "in 2 attempts"]),
    "500 of the list": (times(1, is_list, Answer(500)), LOADED),
    "502 of a head": (times(1, is_head_of("config.json"), Answer(502)), LOADED),
    "504 of the store": (times(1, of_weights, Answer(504)), LOADED),
    "408": (times(1, of_weights, Answer(408)), LOADED),
    "429 with Retry-After": (times(1, of_weights, Answer(429, headers={"Retry-After": "1"})), LOADED),
    "429 with a date": (times(1, is_list, Answer(429, headers={"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"})), LOADED),
    "429 with an hour": (always(is_list, Answer(429, headers={"Retry-After": "3600"})), ["after 3600 seconds", "HF_TOKEN"]),
    "429 with garbage": (times(1, is_list, Answer(429, headers={"Retry-After": "-5 x"})), LOADED),
    # ---- lengths that lie ----
    "more bytes than announced by the head": (always(of_weights, lambda u: Answer(200, u.body + b"more")), ["320004 bytes"]),
    "fewer bytes than announced by the head": (always(of_weights, lambda u: Answer(200, u.body[:-4])), ["319996 bytes"]),
    "a length that is too large": (always(of_weights, lambda u: Answer(200, u.body, length=len(u.body) + 10)), ["320010 bytes"]),
    "no length and more bytes": (always(of_weights, lambda u: Answer(200, u.body + b"more", {"Content-Length": "x"})), ["model.safetensors"]),
    "a head without a size": (always(is_head_of("config.json"), with_headers(Content_Length="x")), ["config.json of model tester/tiny"]),
    "no size of the head": (always(is_head_of("model.safetensors"), with_headers(X_Linked_Size=None)), LOADED),
    "a negative size of the head": (always(is_head_of("model.safetensors"), with_headers(X_Linked_Size="-3")), LOADED),
    "a size of the head that differs from the list": (always(is_head_of("model.safetensors"), with_headers(X_Linked_Size="5")), ["not the file of the list", "5 bytes"]),
    "an empty body": (always(of_weights, Answer(200, b"")), ["0 bytes"]),
    "a range that was not asked for": (always(of_weights, lambda u: Answer(206, u.body[5:], {"Content-Range": "bytes 5-319999/320000"})), ["bytes 5-319999/320000"]),
    "a compressed body": (always(of_weights, with_headers(Content_Encoding="gzip")), ["compressed"]),
    "416 for a whole file": (always(of_weights, Answer(416)), ["status 416"]),
    # ---- content that is wrong ----
    "a wrong hash": (always(of_weights, lambda u: Answer(200, b"x" * len(u.body))), ["SHA-256", "expected"]),
    "an ETag that changes": (lambda s, u: with_headers(X_Linked_Etag='"' + "a" * 64 + '"')(u) if s.method == GET and u.status == 302 else None, ["changed while it was loaded"]),
    "an ETag of another file": (always(is_head_of("model.safetensors"), with_headers(X_Linked_Etag='"' + "a" * 64 + '"')), ["not the file of the list"]),
    "no ETag": (always(is_head_of("config.json"), with_headers(ETag=None)), ["no usable ETag"]),
    "an ETag with a path": (always(is_head_of("config.json"), with_headers(ETag='"../../../evil"')), ["no usable ETag"]),
    "a weak ETag": (always(is_head_of("config.json"), lambda u: with_headers(ETag="W/" + u.headers["ETag"])(u)), LOADED),
    "another commit in the head": (always(is_head_of("config.json"), with_headers(X_Repo_Commit=OTHER)), ["not the file of the list", OTHER]),
    "no commit in the head": (always(is_head_of("config.json"), with_headers(X_Repo_Commit=None)), LOADED),
    # ---- redirects ----
    **{f"{status} to {what}": (moved(status, to), LOADED) for status in (301, 302, 303, 307, 308) for what, to in
       {"a relative path": lambda: "", "this host": lambda: hub.endpoint, "another host": lambda: hub.url("store")}.items()},
    "a redirect without a scheme": (moved(307, lambda: hub.url("store").removeprefix("http:"), is_list), LOADED),
    "redirects without end": (always(is_list, Answer(302, headers={"Location": "/api/models/x"})), ["more than 10 times"]),
    "a redirect to nowhere": (always(is_list, Answer(302)), ["not a URL"]),
    "a redirect to a file": (always(is_list, Answer(302, headers={"Location": "file:///etc/passwd"})), ["not a URL"]),
    "a redirect with a user": (always(is_list, Answer(302, headers={"Location": "http://me:you@127.0.0.1/"})), ["not a URL"]),
    "a redirect to ftp": (always(is_list, Answer(302, headers={"Location": "ftp://127.0.0.1/x"})), ["not a URL"]),
    "a redirect with a line break": (always(is_list, Answer(302, headers={"Location": "/a\tb"})), ["not a URL"]),
    # ---- refusals ----
    "a gated repository": (always(is_head_of("model.safetensors"), Answer(403, headers={"X-Error-Code": "GatedRepo"})), ["is gated", "accept the terms on", "HF_TOKEN"]),
    "a gated repository without a code": (always(is_list, Answer(403)), ["is gated"]),
    "401 without a code": (always(is_list, Answer(401)), ["does not accept the token"]),
    "404 of the list": (always(is_list, Answer(404)), ["the hub has no model tester/tiny", "check the name"]),
    "404 of a listed file": (always(is_head_of("/config.json"), Answer(404, headers={"X-Error-Code": "EntryNotFound"})), ["has no file config.json"]),
    "400": (always(is_list, Answer(400, headers={"X-Error-Message": "what\x01ever " + "x" * 500})), ["status 400: what ever x"]),
    "Xet alone": (lambda s, u: Answer(403, headers={"X-Xet-Hash": "a" * 64, "X-Error-Code": "Xet"}) if s.method == GET and "model.safetensors" in s.path else None, ["by Xet alone", "hf_xet"]),
    # ---- lists that are hostile ----
    "a file above its folder": (always(is_list, listing_with("../../evil")), ["../../evil", "no folder can hold"]),
    "an absolute file": (always(is_list, listing_with("/etc/evil")), ["/etc/evil"]),
    "a file with a NUL": (always(is_list, listing_with("a\0b")), ["no folder can hold"]),
    "a file with a backslash": (always(is_list, listing_with("a\\..\\b")), ["no folder can hold"]),
    "a file with a long name": (always(is_list, listing_with("x" * 300)), ["no folder can hold"]),
    "a file in a folder .": (always(is_list, listing_with("./config.json")), ["no folder can hold"]),
    "a file without a name": (always(is_list, listing_with("")), ["no folder can hold"]),
    "a file twice": (always(is_list, listing_with("config.json")), ["lists the file config.json twice"]),
    "no JSON": (listing_of(b"<html>"), ["the list of model tester/tiny"]),
    "JSON of another kind": (listing_of([1, 2]), ["without a commit"]),
    "a list without files": (listing_of({"sha": COMMIT}), ["without files"]),
    "a list with a wrong commit": (listing_of({"sha": "../../x", "siblings": []}), ["without a commit"]),
    "a list of nothing": (listing_of({"sha": COMMIT, "siblings": []}), ["no weights"]),
    "a list that is nested deeply": (listing_of(b"[" * 100_000), ["the list of model tester/tiny"]),
    "a list that is too long": (listing_of(b" " * (17 << 20)), ["longer than expected"]),
    "a list with numbers for names": (listing_of({"sha": COMMIT, "siblings": [{"rfilename": 5}, 7, None]}), ["no folder can hold"]),
    "sizes that are no numbers": (always(is_list, lambda u: Answer(200, re.sub(rb'"size": \d+', b'"size": -1.5', u.body))), LOADED),
    "a list without sizes": (always(is_list, lambda u: Answer(200, re.sub(rb'"size": \d+, ', b"", re.sub(rb', "lfs": {[^}]*}', b"", u.body)))), LOADED),
    "a head of 1 MB": (always(is_list, lambda u: Answer(200, u.body, {f"X-{i}": "y" * 1000 for i in range(1000)})), ["longer than expected"]),
}


def is_complete(cache):
    return all((snapshot(cache) / path).is_file() and (snapshot(cache) / path).read_bytes() == FILES[path]
               for path in ("config.json", "tokenizer.json", "generation_config.json", "model.safetensors"))


def faults():
    for name, (hook, expected, *words) in FAULTS.items():
        hub.clear()
        hub.repos[NAME], hub.hook = repo(), hook
        cache = new_cache()
        done = pull(cache, NAME, *(words[0] if words else ["--attempts", "2"]))
        said = done.stderr[-700:]
        if expected is None:
            ok(done.returncode == 0 and is_complete(cache), f"{name}: loaded {'' if done.returncode == 0 else said}")
        else:
            ok(done.returncode == 1 and all(word in done.stderr for word in expected), f"{name}: {expected[0]} {said if done.returncode != 1 or any(w not in done.stderr for w in expected) else ''}")
            ok(not (folder(cache) / "refs" / "main").exists(), f"{name}: no reference to a snapshot that is not whole")
        ok(TOKEN not in done.stderr + done.stdout, f"{name}: the token is not printed")
        ok(not any(seen.token for seen in hub.seen if seen.server == "store"), f"{name}: the token stays at the hub")
        hub.hook = None
        again = pull(cache, NAME)
        ok(again.returncode == 0 and is_complete(cache), f"{name}: the next pull is whole {again.stderr[-300:] if again.returncode else ''}")
        outside = names_below(SCRATCH) - {str(pathlib.Path("cache") / one) for one in names_below(cache)}
        ok(not any("evil" in one for one in outside), f"{name}: nothing outside of the cache")


def resume_after_kill():
    """kill -9 in a slow transfer: the next pull asks for the rest alone."""
    hub.clear()
    hub.repos[NAME] = repo()
    hub.hook = always(of_weights, changed(pause=0.05))
    cache = new_cache()
    job = subprocess.Popen([str(DLLM), "pull", NAME], cwd=SCRATCH, env=environment(cache), stderr=subprocess.PIPE, text=True)
    part = folder(cache) / "blobs" / (hub.repos[NAME].etag("model.safetensors") + ".incomplete")
    until = time.monotonic() + 30
    while time.monotonic() < until and not (part.exists() and part.stat().st_size > 20_000):
        time.sleep(0.01)
    job.kill()
    job.communicate()
    kept = part.stat().st_size
    ok(0 < kept < len(WEIGHTS), f"kill -9: {kept} bytes are kept")
    listed = json.loads(pull(cache, "--json", command="models").stdout)
    ok(listed[0]["incomplete"] == kept, "dllm models has the bytes of the transfer that did not end")
    hub.hook, hub.seen = None, []
    done = pull(cache, NAME)
    ok(done.returncode == 0 and is_complete(cache), f"kill -9: the next pull is whole {done.stderr[-300:]}")
    ranges = [seen.range for seen in hub.seen if of_weights(seen)]
    ok(ranges == [f"bytes={kept}-"], f"kill -9: only the rest is asked for: {ranges}")
    ok(not part.exists(), "kill -9: nothing incomplete is left")

    cache = new_cache()
    part.parent.mkdir(parents=True)
    part.write_bytes(b"other bytes of another program" * 100)
    hub.seen = []
    done = pull(cache, NAME)
    ok(done.returncode == 0 and is_complete(cache), f"wrong first bytes: loaded again {done.stderr[-300:]}")
    ok(len([seen for seen in hub.seen if of_weights(seen)]) == 2, "wrong first bytes: two requests")
    cache = new_cache()
    part.parent.mkdir(parents=True)
    part.write_bytes(WEIGHTS + b"too long")
    ok(pull(cache, NAME).returncode == 0 and is_complete(cache), "too many first bytes: loaded again")
    cache = new_cache()
    part.parent.mkdir(parents=True)
    part.write_bytes(WEIGHTS)
    hub.seen = []
    ok(pull(cache, NAME).returncode == 0 and is_complete(cache) and not any(map(of_weights, hub.seen)), "all bytes are there: none is loaded")
    cache = new_cache()
    part.parent.mkdir(parents=True)
    (part.parent / (hub.repos[NAME].etag("config.json") + ".incomplete")).write_bytes(b"x" * 100)
    ok(pull(cache, NAME).returncode == 0 and is_complete(cache), "wrong first bytes of a file without a SHA-256")
    cache = new_cache()
    part.parent.mkdir(parents=True)
    part.write_bytes(WEIGHTS[:5000])
    hub.hook = lambda seen, usual: Answer(200, WEIGHTS) if of_weights(seen) else None
    ok(pull(cache, NAME).returncode == 0 and is_complete(cache), "a server without ranges: the file is loaded from its start")


def interrupted():
    hub.clear()
    hub.repos[NAME] = repo()
    hub.hook = always(of_weights, changed(pause=0.05))
    cache = new_cache()
    job = subprocess.Popen([str(DLLM), "pull", NAME], cwd=SCRATCH, env=environment(cache), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    part = folder(cache) / "blobs" / (hub.repos[NAME].etag("model.safetensors") + ".incomplete")
    until = time.monotonic() + 30
    while time.monotonic() < until and not (part.exists() and part.stat().st_size > 0):
        time.sleep(0.01)
    job.send_signal(signal.SIGINT)
    out, err = job.communicate(timeout=30)
    ok(job.returncode == 130 and "are kept" in err and "goes on from there" in err and out == "", f"Ctrl-C: {job.returncode} {err[-300:]}")
    ok(part.exists(), "Ctrl-C: the bytes stay")


def three_at_once():
    """The hub keeps the weights back until two programs have said that they wait: a machine under load passes too."""
    hub.clear()
    hub.repos[NAME] = repo()
    cache = new_cache()
    logs = [SCRATCH / f"pull{i}.log" for i in range(3)]

    def waiting():
        return sum("another pull loads model.safetensors" in log.read_text() for log in logs)

    def hold(seen, usual):
        until = time.monotonic() + 60
        while of_weights(seen) and waiting() < 2 and time.monotonic() < until:
            time.sleep(0.01)

    hub.hook = hold
    jobs = []
    for log in logs:
        with log.open("w") as file:
            jobs.append(subprocess.Popen([str(DLLM), "pull", NAME], cwd=SCRATCH, env=environment(cache), stdout=subprocess.DEVNULL, stderr=file))
    ended = [job.wait(timeout=90) for job in jobs]
    ok(ended == [0, 0, 0] and is_complete(cache), f"three pulls at once: {ended} {[log.read_text() for log in logs]}")
    ok(len([seen for seen in hub.seen if of_weights(seen)]) == 1, "three pulls at once: the weights are loaded once")
    ok(waiting() == 2, "three pulls at once: two wait, with a line")


def full_disk():
    import resource
    hub.clear()
    hub.repos[NAME] = repo()
    cache = new_cache()
    done = pull(cache, NAME, before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)))
    ok(done.returncode == 1 and "cannot write" in done.stderr, f"a limit of file sizes: {done.stderr[-300:]}")
    hub.seen = []
    ok(pull(cache, NAME).returncode == 0 and is_complete(cache), "after a full disk the next pull is whole")
    ok([seen.range for seen in hub.seen if of_weights(seen)] == ["bytes=100000-"], "after a full disk the next pull asks for the rest")

    small = SCRATCH / "small"
    hub.seen = []
    done = run_on_small_disk([DLLM, "pull", NAME], small, environment(small / "hub"))
    if done is None:
        print("skipped: a small file system needs the right to mount")
        return
    ok(done.returncode == 1 and "needs 31" in done.stderr and "are free in" in done.stderr and "HF_HUB_CACHE" in done.stderr, f"a small disk: {done.stderr[-300:]}")
    ok(not any(map(is_blob, hub.seen)), "a small disk: not a byte was loaded")


def offline():
    hub.clear()
    hub.repos[NAME] = repo()
    cache = new_cache()
    done = pull(cache, NAME, HF_HUB_OFFLINE="1")
    ok(done.returncode == 1 and "not in the cache" in done.stderr and not hub.seen, f"offline, empty cache: {done.stderr[-300:]}")
    ok(pull(cache, NAME).returncode == 0, "online")
    hub.seen = []
    done = pull(cache, NAME, HF_HUB_OFFLINE="1")
    ok(done.returncode == 0 and done.stdout.strip() == str(snapshot(cache)) and not hub.seen, f"offline, from the cache: {done.stderr[-300:]}")
    hub.hook = always(lambda seen: True, Answer(drop=True))
    done = pull(cache, NAME, "--attempts", "1")
    ok(done.returncode == 0 and "the copy in the cache is used" in done.stderr, f"without network, from the cache: {done.stderr[-300:]}")
    (snapshot(cache) / "model.safetensors").unlink()
    ok(pull(cache, NAME, HF_HUB_OFFLINE="1").returncode == 1, "offline, weights missing")
    done = pull(cache, NAME, HF_HUB_OFFLINE="1", HF_ENDPOINT="http://me:word@x")
    ok(done.returncode == 1 and "word" not in done.stderr and "HF_ENDPOINT" in done.stderr, f"an endpoint with a password: {done.stderr[-200:]}")


def revisions_and_files():
    hub.clear()
    old, new = repo(), repo(**{"generation_config.json": b'{"a": 1}'})
    new.commit = OTHER
    cache = new_cache()
    hub.repos[NAME] = old
    ok(pull(cache, NAME).returncode == 0, "the first commit")
    hub.repos[NAME] = new
    hub.seen = []
    ok(pull(cache, NAME).stdout.strip() == str(snapshot(cache, OTHER)), "a newer commit")
    ok(not any(map(of_weights, hub.seen)), "a newer commit: equal weights are not loaded again")
    ok((folder(cache) / "refs/main").read_text() == OTHER, "the reference is the newer commit")
    done = pull(cache, f"{NAME}@v9")
    ok(done.returncode == 1 and "has no revision v9" in done.stderr, f"no such revision: {done.stderr[-300:]}")
    new.refs.add("refs/pr/1")
    ok(pull(cache, f"{NAME}@refs/pr/1").returncode == 0 and (folder(cache) / "refs/refs/pr/1").exists(), "a revision with slashes")
    ok(pull(cache, f"{NAME}@{OTHER}").returncode == 0, "a commit")
    done = pull(cache, "tester/none")
    ok(done.returncode == 1 and "the hub has no model tester/none" in done.stderr, f"no such repository: {done.stderr[-300:]}")
    done = pull(cache, f"{NAME}:none.gguf")
    ok(done.returncode == 1 and "has no file none.gguf" in done.stderr, f"no such file: {done.stderr[-300:]}")
    done = pull(cache, NAME, "--file", "README.md")
    ok(done.stdout.strip().endswith("/README.md"), f"one file: {done.stdout}")
    for wrong in ("tiny", "a/b/c", "../x", "a b/c", f"{NAME}@../x", f"{NAME}:../x", ""):
        done = pull(cache, wrong)
        ok(done.returncode != 0 and done.stdout == "", f"no name: {wrong!r} {done.stderr[-200:]}")
    listed = json.loads(pull(cache, "--json", command="models").stdout)
    ok([row["name"] for row in listed] == [NAME] and len(listed[0]["snapshots"]) == 2, f"dllm models: {listed}")
    ok(pull(cache, "verify", NAME, command="models").returncode == 0, "dllm models verify")
    blob = (snapshot(cache, OTHER) / "model.safetensors").resolve()
    blob.write_bytes(WEIGHTS[:-1] + b"x")
    done = pull(cache, "verify", NAME, command="models")
    ok(done.returncode == 1 and "its SHA-256 is" in done.stdout, f"dllm models verify names a fault: {done.stdout[-300:]}")
    done = pull(cache, "remove", f"{NAME}@{COMMIT}", command="models")
    ok(done.returncode == 0 and blob.exists() and not snapshot(cache).exists(), f"one revision is removed, shared blobs stay: {done.stdout}{done.stderr}")
    ok(len(list((folder(cache) / "blobs").iterdir())) == 5, "its own blob is removed")
    for wrong in (["remove"], ["remove", "tester/tin"], ["remove", f"{NAME}@v9"], ["delete", NAME], ["list", NAME]):
        done = pull(cache, *wrong, command="models")
        ok(done.returncode != 0 and blob.exists(), f"dllm models {wrong}: {done.stderr.strip()[:150]}")
    (folder(cache) / "refs/v2").write_text(OTHER)
    done = pull(cache, "remove", f"{NAME}@v2", command="models")
    ok(done.returncode == 0 and blob.exists() and not (folder(cache) / "refs/v2").exists() and snapshot(cache, OTHER).exists(),
       f"of two names of a commit one goes, and no file: {done.stdout}{done.stderr}")
    done = pull(cache, "remove", f"{NAME}@refs/pr/1", command="models")
    left = [path.name for path in (folder(cache) / "refs").rglob("*") if path.is_file()]
    ok(done.returncode == 0 and left == ["main"] and blob.exists(), f"main stays: {left} {done.stderr}")
    done = pull(cache, "remove", f"{NAME}@main", command="models")
    left = [path for path in (folder(cache) / "refs").rglob("*") if path.is_file()]
    ok(done.returncode == 0 and left == [] and not blob.exists(), f"with the last name of a commit its blobs go: {left} {done.stderr}")
    done = pull(cache, "remove", NAME, command="models")
    ok(done.returncode == 0 and not folder(cache).exists(), "the model is removed")
    ok(pull(cache, "--json", command="models").stdout.strip() == "[]", "the cache is empty")


def tokens():
    hub.clear()
    hub.repos[NAME] = repo()
    pull(new_cache(), NAME)
    ok(all(seen.token == f"Bearer {TOKEN}" for seen in hub.seen if seen.server == "hub"), "the hub gets the token of HF_TOKEN")
    (SCRATCH / "home").mkdir(exist_ok=True)
    (SCRATCH / "home/token").write_text("hf_OfTheFile\n")
    for what, token, more in (("of the file", "Bearer hf_OfTheFile", {}), ("none", "", {"HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"})):
        hub.seen = []
        pull(new_cache(), NAME, HF_TOKEN="", **more)
        ok({seen.token for seen in hub.seen if seen.server == "hub"} == {token}, f"the token: {what}")
    (SCRATCH / "home/token").unlink()
    hub.seen = []
    done = pull(new_cache(), NAME, HF_ENDPOINT=hub.endpoint.replace("127.0.0.1", "0.0.0.0"), no_proxy="*")
    ok(done.returncode == 0 and not any(seen.token for seen in hub.seen), f"no token in clear text to another machine: {done.stderr[-200:]}")
    done = pull(new_cache(), NAME, HF_TOKEN="a\nX-Evil: 1")
    ok(done.returncode == 1 and "not printable" in done.stderr, f"a token with a line break: {done.stderr.strip()[-200:]}")


def options():
    """Every option of dllm pull changes what is loaded, or how often the hub is asked."""
    named = program.options_of("pull")
    tested = set()

    def option(name, *words):
        tested.add(name)
        return pull(new_cache(), NAME, *words)

    hub.clear()
    hub.repos[NAME] = repo(**{"other.safetensors": b"x"})
    hub.repos["datasets/" + NAME] = Repo({"a.txt": b"line"})
    ok(option("--hub.file", "--file", "README.md").stdout.strip().endswith("README.md"), "--file")
    ok("no revision v3" in option("--hub.revision", "--revision", "v3").stderr, "--revision")
    ok("datasets--" in option("--hub.dataset", "--dataset").stdout, "--dataset")
    hub.seen = []
    ok(option("--hub.weights", "--weights", "false").returncode == 0 and not any(map(of_weights, hub.seen)), "--weights")
    hub.seen = []
    ok(option("--hub.offline", "--offline").returncode == 1 and not hub.seen, "--offline")
    hub.hook = always(is_list, Answer(503))
    hub.seen = []
    option("--hub.attempts", "--attempts", "3")
    ok(len(hub.seen) == 3, "--attempts")
    hub.hook = None
    done = option("--quiet", "--quiet")
    ok(done.returncode == 0 and done.stderr == "", "--quiet")
    ok(json.loads(option("--json", "--json").stdout)["missing"] > 0, "--json")
    ok(named - tested <= {"--help", "--config"}, f"each option is tested: {named - tested}")


def gguf_files():
    hub.clear()
    hub.repos[NAME] = Repo({"m-Q4_K_M.gguf": b"4" * 2000, "m-Q8_0.gguf": b"8" * 4000}, large=("m-Q4_K_M.gguf", "m-Q8_0.gguf"))
    cache = new_cache()
    done = pull(cache, NAME)
    ok(done.returncode == 1 and "m-Q4_K_M.gguf (2.0 KiB), m-Q8_0.gguf (3.9 KiB)" in done.stderr, f"several GGUF files: {done.stderr[-300:]}")
    done = pull(cache, f"{NAME}:Q4_K_M")
    ok(done.returncode == 0 and done.stdout.strip() == str(snapshot(cache) / "m-Q4_K_M.gguf"), f"one GGUF file: {done.stderr[-300:]}")
    ok(hub.count("GET", hub.repos[NAME].etag("m-Q8_0.gguf")) == 0, "the other one is not loaded")


def fits():
    hub.clear()
    hub.repos[NAME] = repo()
    done = pull(new_cache(), NAME, "--json")
    report = json.loads(done.stdout)
    ok(report["fit"]["fits"] is True and report["fit"]["policy"] == "low_confidence" and report["fit"]["needs"] > report["fit"]["weights"] > 0, f"fits: {report}")
    order = [seen for seen in hub.seen if is_blob(seen)]
    ok(of_weights(order[-1]) and not any(map(of_weights, order[:-1])), "the weights come last")
    large = json.loads(CONFIG)
    large.update(d_model=65536, n_heads=64, n_layers=400, mlp_hidden_size=262144)
    hub.repos[NAME] = repo(**{"config.json": json.dumps(large).encode()})
    done = pull(new_cache(), NAME)
    ok("does not fit" in done.stderr and "this machine has" in done.stderr, f"does not fit: {done.stderr[-400:]}")
    hub.repos[NAME] = repo(**{"config.json": b'{"model_type": "nothing"}'})
    done = pull(new_cache(), NAME)
    ok(done.returncode == 0 and "not known whether it fits" in done.stderr, f"an unknown family: {done.stderr[-300:]}")


def main():
    program.empty_folder()
    hub.repos[NAME] = repo()
    done = pull(new_cache(), NAME)
    if "libcurl" in done.stderr:
        print("skipped: this system has no libcurl")
        return 77
    parts = (faults, resume_after_kill, interrupted, three_at_once, full_disk, offline, revisions_and_files, tokens, options, gguf_files, fits)
    return hub.run_parts(parts, program)


if __name__ == "__main__":
    sys.exit(main())
