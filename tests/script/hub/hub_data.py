"""Data sets by name: rows that are read while files are loaded, and limited rows that are read by ranges.

hub_data.py DLLM SCRATCH

A token file of `dllm tokenize` has a hash of its ids, so equal files mean equal rows in the same order. Exit status 77: skipped,
there is no libcurl.
"""
import gzip
import hashlib
import json
import os
import pathlib
import pty
import resource
import shutil
import signal
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from cli_options import LINES, Program  # noqa: E402
from hub_server import COMMIT, Answer, Hub, Repo, run_on_small_disk  # noqa: E402
from parquet_writer import parquet  # noqa: E402

DLLM, SCRATCH = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
program = Program(str(DLLM), SCRATCH)
ok = program.ok
hub = Hub()
TOKEN = "hf_TokenOfTheTest0123"
DATA = "tester/rows"
ADDRESS = f"hf://datasets/{DATA}"
KEY = "datasets/" + DATA
OTHER = "f" * 64


def environment(**more):
    return hub.environment(SCRATCH, "cache", **{"HF_TOKEN": TOKEN, **more})


def run(*words, **more):
    return subprocess.run([str(DLLM), *map(str, words)], cwd=SCRATCH, env=environment(**more), text=True, capture_output=True, timeout=120)


def tokenize(data, *words, **more):
    """Returns the token file, or None, and the finished process."""
    out = SCRATCH / "out.tok"
    out.unlink(missing_ok=True)
    done = run("tokenize", data, out, "--model", SCRATCH / "tokenizer.json", *words, **more)
    return out.read_bytes() if done.returncode == 0 else None, done


def clear(*repos):
    shutil.rmtree(SCRATCH / "cache", ignore_errors=True)
    hub.clear()
    hub.repos[KEY] = repos[0] if repos else None


def in_cache():
    """The files of the cache that hold bytes of the data set."""
    folder = SCRATCH / "cache" / ("datasets--" + DATA.replace("/", "--")) / "blobs"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def loaded():
    """The bytes that answers to requests for a part or all of a file had."""
    return sum(seen.sent for seen in hub.seen if seen.method == "GET" and not seen.path.startswith("/api/"))


def of_rows(seen):
    return seen.method == "GET" and not seen.path.startswith("/api/") and seen.status in (200, 206)


def texts(count, length=600, word="row"):
    """Texts that differ from each other in every part."""
    return [f"{word} {i}: " + " ".join(f"{LINES[(i * 7 + j) % len(LINES)][5:40]}{i}" for j in range(length // 40)) for i in range(count)]


def jsonl(rows):
    return "".join(json.dumps({"text": row}) + "\n" for row in rows).encode()


def repo(files, **more):
    return Repo(files, large=list(files), **more)


def folder_of(files):
    """Writes the files into a folder of this machine."""
    folder = SCRATCH / "local"
    shutil.rmtree(folder, ignore_errors=True)
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


# ---- the same rows ----

MANY = texts(12_000)
PARQUET, GROUPS = parquet({"id": [str(i) for i in range(9000)], "text": MANY[:9000]}, rows_of_group=3000)
SETS = {
    "JSONL": {"train-0.jsonl": jsonl(MANY)},
    "JSONL.gz": {"train-0.jsonl.gz": gzip.compress(jsonl(MANY), 1)},
    "Parquet": {"train-0.parquet": PARQUET},
    "several files": {"data/train-2.jsonl": jsonl(texts(300, word="b")), "data/train-0.jsonl.gz": gzip.compress(jsonl(texts(200, word="a"))),
                      "data/train-1.parquet": parquet({"text": texts(250, word="c")}, 100)[0], "data/test-0.jsonl": jsonl(texts(10, word="d")),
                      "data/train-3.csv.gz": gzip.compress(("text\n" + "".join(f"{row}\n" for row in texts(30, word="f"))).encode()),
                      "data/train/x.jsonl": jsonl(texts(20, word="e")), ".hidden/train-9.jsonl": jsonl(["no"]), "README.md": b"# no rows"},
}
SLICES = {"JSONL": ["[:100]", "[train:100]", "[20:90]*2.5"], "JSONL.gz": ["[:100]"], "Parquet": ["[:100]", "[:3000]", "[2990:3010]"],
          "several files": ["[train:150]", "[train:220]", "[train:330,test:5]", "[100:260]", "[:770]", "[-30:]", "[:50%]"]}


def equal_rows():
    for name, files in SETS.items():
        local = folder_of({path: content for path, content in files.items() if not path.endswith(".md")})
        place = local / "data" if "data/test-0.jsonl" in files else local
        for rows in ["", *SLICES[name]]:
            expected = tokenize(f"{place}{rows}")[0]
            for words in ([], ["--stream", "true"]):
                clear(repo(files))
                got, done = tokenize(f"{ADDRESS}{rows}", *words)
                ok(got is not None and got == expected, f"{name}{rows} {' '.join(words)}: equal rows {done.stderr[-300:] if got != expected else ''}")
                is_limited = rows and "-" not in rows and "%" not in rows
                ok((in_cache() == []) == bool(words or is_limited), f"{name}{rows} {' '.join(words)}: {len(in_cache())} files are kept")


def only_what_is_needed():
    noise = "".join(hashlib.sha256(b"%d" % i).hexdigest() for i in range(60_000))
    packed = gzip.compress(jsonl([noise[i:i + 600] for i in range(0, len(noise), 600)]))
    for rows, most, (path, content) in (("[:100]", 2 << 20, ("a.jsonl", SETS["JSONL"]["train-0.jsonl"])), ("[:20]", 1 << 20, ("a.parquet", PARQUET)),
                                        ("[:20]", 1 << 20, ("a.jsonl.gz", packed))):
        clear(repo({path: content}))
        ok(tokenize(f"{ADDRESS}{rows}")[0] is not None and 0 < loaded() < most < len(content), f"{path}{rows}: {loaded()} bytes of {len(content)} are loaded")
    clear(repo(SETS["Parquet"]))
    tokenize(f"{ADDRESS}[:3000]")
    ranges = [seen.range.removeprefix("bytes=").split("-") for seen in hub.seen if of_rows(seen)]
    end = GROUPS[-1][1]
    ok(all(int(first) >= end or int(last or end) < GROUPS[0][1] for first, last in ranges), f"rows of the first row group load no other: {GROUPS[0]} {ranges}")
    files = SETS["several files"]
    clear(repo(files))
    tokenize(f"{ADDRESS}[train:20]")
    ok({seen.path for seen in hub.seen if seen.server == "store"} == {"/" + hub.repos[KEY].etag("data/train/x.jsonl")}, "a limit that ends with a file opens no other file")
    clear(repo(files))
    done = run("pull", "dataset:" + DATA + ":data/train/x.jsonl")
    hub.seen = []
    ok(done.returncode == 0 and tokenize(f"{ADDRESS}@{COMMIT}[train:20]")[0] is not None and not any(map(of_rows, hub.seen)), "a file in the cache is read from there")


# ---- faults of ranges ----

def first_time(picks, answer):
    left = [1]

    def hook(seen, usual):
        if not picks(seen) or left[0] == 0:
            return None
        left[0] -= 1
        return answer(usual)
    return hook


def second_range(answer):
    """Changes the answer to the second range that is asked for."""
    count = [0]

    def hook(seen, usual):
        if seen.server != "store" or seen.method != "GET":
            return None
        count[0] += 1
        return answer(usual) if count[0] == 2 else None
    return hook


def etag_changes():
    """Another ETag in the redirect from the second range on."""
    count = [0]

    def hook(seen, usual):
        if seen.method != "GET" or usual.status != 302:
            return None
        count[0] += 1
        return Answer(302, b"", {**usual.headers, "X-Linked-Etag": f'"{OTHER}"'}) if count[0] > 1 else None
    return hook


def is_range(seen):
    return seen.server == "store" and seen.method == "GET"


FAULTS = {  # name: hook, words of the error; none: the rows are read
    "the connection ends after 1000 bytes": (first_time(is_range, lambda u: Answer(u.status, u.body, u.headers, cut=1000)), []),
    "the connection ends without an answer": (second_range(lambda u: Answer(drop=True)), []),
    "a slow server": (first_time(is_range, lambda u: Answer(u.status, u.body, u.headers, pause=0.005)), []),
    "429 with Retry-After": (second_range(lambda u: Answer(429, headers={"Retry-After": "1"})), []),
    "403 of an address that expired": (second_range(lambda u: Answer(403)), []),
    "403 of the server of files for good": (lambda s, u: Answer(403) if is_range(s) else None, ["status 403", "train-0.jsonl of data set tester/rows", "in 5 attempts"]),
    "503": (first_time(is_range, lambda u: Answer(503)), []),
    "503 for good": (lambda s, u: Answer(503) if is_range(s) else None, ["status 503", "train-0.jsonl of data set tester/rows", "in 5 attempts"]),
    "fewer bytes than the range": (second_range(lambda u: Answer(206, u.body[:-5], u.headers)), ["train-0.jsonl of data set tester/rows", "were asked for"]),
    "more bytes than the range": (second_range(lambda u: Answer(206, u.body + b"12345", u.headers)), ["were asked for"]),
    "another range": (second_range(lambda u: Answer(206, u.body, {**u.headers, "Content-Range": "bytes 5-9/10"})), ["bytes 5-9/10"]),
    "a server that ignores ranges": (lambda s, u: Answer(200, hub.repos[KEY].files["train-0.jsonl"]) if is_range(s) else None, ["train-0.jsonl of data set tester/rows cannot be read in parts", "dllm pull dataset:tester/rows"]),
    "an ETag that changes between two ranges": (etag_changes(), ["train-0.jsonl of data set tester/rows changed while it was loaded", OTHER]),
    "416": (second_range(lambda u: Answer(416)), ["status 416"]),
    "a compressed body": (second_range(lambda u: Answer(206, u.body, {**u.headers, "Content-Encoding": "gzip"})), ["compressed"]),
    "404 of the file": (lambda s, u: Answer(404, headers={"X-Error-Code": "EntryNotFound"}) if "/resolve/" in s.path else None, ["has no file train-0.jsonl"]),
    "a gated data set": (lambda s, u: Answer(403, headers={"X-Error-Code": "GatedRepo"}) if "/resolve/" in s.path else None, ["is gated"]),
}


def faults():
    files = SETS["JSONL"]
    expected = tokenize(f"{folder_of(files)}[:3000]")[0]
    for name, (hook, words) in FAULTS.items():
        clear(repo(files))
        hub.hook = hook
        got, done = tokenize(f"{ADDRESS}[:3000]")
        if words:
            ok(done.returncode == 1 and all(word in done.stderr for word in words), f"{name}: {words[0]} {'' if all(word in done.stderr for word in words) else done.stderr[-500:]}")
        else:
            ok(got == expected, f"{name}: equal rows {done.stderr[-300:] if got != expected else ''}")
        ok(in_cache() == [], f"{name}: nothing is kept")
        ok(TOKEN not in done.stdout + done.stderr and not any(seen.token for seen in hub.seen if seen.server == "store"), f"{name}: the token stays at the hub")
    ok(all(seen.token for seen in hub.seen if seen.server == "hub"), "the hub gets the token")


def damaged():
    """Parquet files whose chunks of columns have another length than the file says."""
    columns = {"id": [str(i) for i in range(900)], "text": MANY[:900]}
    whole, groups = parquet(columns, 300)
    expected = tokenize(folder_of({"a.parquet": whole}))[0]
    cases = {"too short": (parquet(columns, 300, size_error=-1000)[0], "row group 1: a page has"),
             "far too long": (parquet(columns, 300, size_error=1 << 40)[0], "row group 1 should have 1099"),
             "negative": (parquet(columns, 300, size_error=-(1 << 40))[0], "a.parquet"),
             "into the next group": (parquet({"text": MANY[:900]}, 300, size_error=500)[0], "row group 3 should have"),
             "cut out": (whole[:groups[0][1]] + whole[groups[1][1]:], "row group 3 should have")}
    for name, (file, word) in cases.items():
        for words in ([], ["--stream", "true"]):
            clear(repo({"a.parquet": file}))
            done = tokenize(ADDRESS, *words)[1]
            ok(done.returncode == 1 and word in done.stderr and "a.parquet" in done.stderr, f"a length that is {name} {' '.join(words)}: {done.stderr.strip()[-300:]}")
    clear(repo({"a.parquet": whole}))
    ok(tokenize(ADDRESS, "--stream", "true")[0] == expected, "and the whole file is read")


def full_disk():
    content = jsonl(texts(2000))
    clear(repo({"train-0.jsonl": content}))
    expected = tokenize(f"{folder_of({'train-0.jsonl': content})}")[0]
    limit = 100_000
    words = [str(DLLM), "tokenize", ADDRESS, "full.tok", "--model", "tokenizer.json"]
    done = subprocess.run(words, cwd=SCRATCH, env=environment(), text=True, capture_output=True, timeout=60,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    ok(done.returncode == 1 and "cannot write" in done.stderr, f"a limit of file sizes: {done.stderr.strip()[-300:]}")
    hub.seen = []
    ok(tokenize(ADDRESS)[0] == expected and [seen.range for seen in hub.seen if is_range(seen)] == [f"bytes={limit}-"], "after a full disk only the rest is loaded")
    hub.seen = []
    words[3] = str(SCRATCH / "small.tok")
    words[-1] = str(SCRATCH / "tokenizer.json")
    small = SCRATCH / "small"
    done = run_on_small_disk(words, small, environment(HF_HUB_CACHE=str(small / "hub")))
    if done is None:
        print("skipped: a small file system needs the right to mount")
        return
    ok(done.returncode == 1 and "data set tester/rows needs" in done.stderr and "are free in" in done.stderr and not any(map(is_range, hub.seen)), f"a small disk: not a byte is loaded: {done.stderr.strip()[-300:]}")
    words[2] = ADDRESS + "[:100]"
    done = run_on_small_disk(words, small, environment(HF_HUB_CACHE=str(small / "hub")))
    ok(done is not None and done.returncode == 0, f"a small disk: limited rows need none: {done and done.stderr.strip()[-300:]}")


def two_at_once():
    """Two programs read one data set: each file is loaded once, and both have all rows."""
    files = {f"train-{i}.jsonl": jsonl(texts(500, word=f"file{i}")) for i in range(3)}
    expected = tokenize(str(folder_of(files)))[0]
    clear(repo(files))
    hub.hook = lambda seen, usual: Answer(usual.status, usual.body, usual.headers, pause=0.002) if is_range(seen) else None
    outs = [SCRATCH / f"out{i}.tok" for i in range(2)]
    jobs = [subprocess.Popen([str(DLLM), "tokenize", ADDRESS, str(out), "--model", "tokenizer.json"], cwd=SCRATCH, env=environment(), stderr=subprocess.PIPE, text=True) for out in outs]
    said = [job.communicate(timeout=120)[1] for job in jobs]
    ok([job.returncode for job in jobs] == [0, 0] and all(out.read_bytes() == expected for out in outs), f"two programs at once: {said}")
    ok(sum(map(is_range, hub.seen)) == 3, f"two programs at once: each file is loaded once: {[seen for seen in hub.seen if is_range(seen)]}")


def cancels():
    for rows, kind in (("[:3000]", "by ranges"), ("", "into the cache")):
        clear(repo(SETS["JSONL"]))
        hub.hook = lambda seen, usual: Answer(usual.status, usual.body, usual.headers, pause=0.05) if is_range(seen) else None
        job = subprocess.Popen([str(DLLM), "tokenize", ADDRESS + rows, "none.tok", "--model", "tokenizer.json"], cwd=SCRATCH, env=environment(), stderr=subprocess.PIPE, text=True)
        until = time.monotonic() + 30
        while time.monotonic() < until and not any(map(is_range, hub.seen)):
            time.sleep(0.01)
        time.sleep(0.3)
        begin = time.monotonic()
        job.send_signal(signal.SIGINT)
        err = job.communicate(timeout=30)[1]
        took = time.monotonic() - begin
        # The call returns within 100 ms; the process needs some more to end on a busy machine.
        ok(job.returncode == 130 and took < 0.5, f"Ctrl-C {kind}: {job.returncode} after {took:.3f} s {err[-200:]}")


# ---- files into the cache ----

def in_order():
    """Files come one after another, the second one while the rows of the first are read; kill -9 loses nothing."""
    files = {f"train-{i}.jsonl": jsonl(texts(2000, word=f"file{i}")) for i in range(3)}
    expected = tokenize(str(folder_of(files)))[0]
    clear(repo(files))
    got, done = tokenize(ADDRESS)
    order = [seen.path[1:] for seen in hub.seen if is_range(seen)]
    ok(got == expected and order == [hub.repos[KEY].etag(f"train-{i}.jsonl") for i in range(3)], f"files are loaded in their order: {done.stderr[-200:]}")
    ok(len(in_cache()) == 3, f"and kept: {in_cache()}")
    hub.seen = []
    got, done = tokenize(ADDRESS)
    ok(got == expected and not any(map(of_rows, hub.seen)), "the second time none is loaded")

    bad = dict(files)
    bad["train-0.jsonl"] = jsonl(texts(2000)) + b"no row\n"
    clear(repo(bad))
    done = tokenize(ADDRESS)[1]
    etags = [hub.repos[KEY].etag(f"train-{i}.jsonl") for i in range(3)]
    seen = {seen.path[1:] for seen in hub.seen if is_range(seen)}
    ok(done.returncode == 1 and "line 2001" in done.stderr and etags[2] not in seen, f"rows of the first file are read before the third one is loaded: {done.stderr[-300:]}")

    clear(repo(files))
    second = hub.repos[KEY].etag("train-1.jsonl")
    hub.hook = lambda seen, usual: Answer(usual.status, usual.body, usual.headers, pause=0.01) if second in seen.path and is_range(seen) else None
    job = subprocess.Popen([str(DLLM), "tokenize", ADDRESS, "none.tok", "--model", "tokenizer.json"], cwd=SCRATCH, env=environment(), stderr=subprocess.DEVNULL)
    part = SCRATCH / "cache/datasets--tester--rows/blobs" / (second + ".incomplete")
    until = time.monotonic() + 30
    while time.monotonic() < until and not (part.exists() and part.stat().st_size > 20_000):
        time.sleep(0.01)
    job.kill()
    job.wait()
    kept = part.stat().st_size
    hub.hook, hub.seen = None, []
    (SCRATCH / "none.tok").unlink(missing_ok=True)
    got, done = tokenize(ADDRESS)
    ranges = [seen.range for seen in hub.seen if second in seen.path and is_range(seen)]
    ok(got == expected and ranges == [f"bytes={kept}-"], f"kill -9: only the rest is loaded: {ranges} {done.stderr[-300:]}")
    ok(not any(hub.repos[KEY].etag("train-0.jsonl") in seen.path for seen in hub.seen), "kill -9: the first file is not loaded again")


def progress():
    """On a terminal the line names the file, its number and the bytes."""
    files = {f"train-{i}.jsonl": jsonl(texts(500, word=f"file{i}")) for i in range(3)}
    clear(repo(files))
    hub.hook = lambda seen, usual: Answer(usual.status, usual.body, usual.headers, pause=0.002) if is_range(seen) else None
    (SCRATCH / "out.tok").unlink(missing_ok=True)
    main, side = pty.openpty()
    job = subprocess.Popen([str(DLLM), "tokenize", ADDRESS, "out.tok", "--model", "tokenizer.json"], cwd=SCRATCH, env=environment(), stderr=side, stdout=side)
    os.close(side)
    said = b""
    while True:
        try:
            piece = os.read(main, 4096)
        except OSError:
            break
        if not piece:
            break
        said += piece
    job.wait(timeout=60)
    os.close(main)
    ok(job.returncode == 0 and b"file 1 of 3: train-0.jsonl, " in said and b"file 3 of 3: train-2.jsonl, " in said and b" of 1 MB" in said or b" of 2 MB" in said, f"the progress line: {said[-300:]}")


# ---- names in the commands, and without the hub ----

TRAIN = ["--layers", "1", "--hidden", "64", "--vocab", "300", "--length", "32", "--batch", "4", "--steps", "2"]


def names():
    files = {f"data/train-{i}.jsonl": jsonl(texts(100, 80, f"file{i}")) for i in range(3)}
    clear(repo(files))
    done = run("train", "--data", f"{DATA}[train:120]", "--out", "limited", *TRAIN)
    ok(done.returncode == 0 and in_cache() == [], f"train with limited rows keeps no file: {done.stderr[-300:] if done.returncode else in_cache()}")
    done = run("train", "--out", "limited", "--steps", "3")
    ok(done.returncode == 0 and "(was " not in done.stderr, f"the run goes on with the rows of its commit: {done.stderr[-300:]}")
    lists = hub.count("GET", "/api/")
    done = run("train", "--data", f"dataset:{DATA}+{SCRATCH}/text[:5]", "--out", "whole", *TRAIN)
    ok(done.returncode == 0 and len(in_cache()) == 3, f"train with all rows keeps the files: {done.stderr[-300:] if done.returncode else in_cache()}")
    ok(hub.count("GET", "/api/") == lists + 1, "the list is asked for once")
    done = run("train", "--data", DATA, "--stream", "true", "--out", "streamed", *TRAIN)
    ok(done.returncode == 0, f"train --stream: {done.stderr[-300:]}")
    by_name, by_path = tokenize(f"{DATA}[train:120]"), tokenize(f"{folder_of(files)}/data[train:120]")
    ok(by_name[0] is not None and by_name[0] == by_path[0], f"tokenize: {by_name[1].stderr[-300:]}")
    done = run("eval", "--model", "limited", "--data", f"{DATA}[:20]", "--limit", "8")
    ok(done.returncode == 0, f"eval: {done.stderr[-300:]}")
    done = run("verify", "limited", "--reference", "limited", "--against", "f32", "--data", f"dataset:{DATA}:data/train-0.jsonl")
    ok(done.returncode == 0, f"verify reads the whole file: {done.stderr[-300:]}")
    done = run("tokenizer-train", "--data", f"{DATA}[:50]", "--vocab", "300", "--out", "tok/tokenizer.json")
    ok(done.returncode == 0, f"tokenizer-train: {done.stderr[-300:]}")
    for wrong, words in ((f"{DATA}[none:5]", ["has no split none"]), (f"dataset:{DATA}:none.jsonl", ["has no file none.jsonl"]),
                         (f"{DATA}[name:none,train:5]", ["none is not a folder"]), (f"{DATA}[900:905]", ["there are no rows from 900 on"]),
                         ("hf://datasets/x", ["not the address of a data set"]), ("hf://models/a/b", ["not the address of a data set"])):
        done = run("train", "--data", wrong, "--out", "wrong", *TRAIN)
        ok(done.returncode == 1 and all(word in done.stderr for word in words), f"{wrong}: {done.stderr.strip()[-300:]}")
    script = SCRATCH / "rows.lua"
    script.write_text(f'local dllm = require "dllm"; print(#dllm.dataset("{ADDRESS}[:5]"))')
    for level in ("safe", "files"):
        done = run("run", f"--lua.sandbox={level}", "--root", str(SCRATCH), str(script))
        ok(done.returncode == 1 and "reaches no" in done.stderr, f"a script at level {level} opens no address: {done.stderr.strip()[-200:]}")


def offline():
    files = {f"data/train-{i}.jsonl": jsonl(texts(100, 80, f"file{i}")) for i in range(4)}
    clear(repo(files))
    expected = tokenize(f"{folder_of(files)}")[0]
    done = run("train", "--data", DATA, "--out", "off", *TRAIN, HF_HUB_OFFLINE="1")
    ok(done.returncode == 1 and "is not in the cache" in done.stderr and not hub.seen, f"offline, empty cache: {done.stderr[-200:]}")
    ok(run("train", "--data", DATA, "--out", "off", *TRAIN).returncode == 0, "online")
    tree = SCRATCH / "cache/datasets--tester--rows/trees" / f"{COMMIT}.json"
    ok(set(json.loads(tree.read_text())["files"]) == set(files), "the list of the commit is kept")
    hub.seen = []
    done = run("train", "--data", DATA, "--out", "off", "--fresh", *TRAIN, HF_HUB_OFFLINE="1")
    ok(done.returncode == 0 and not hub.seen, f"offline, all files are in the cache: {done.stderr[-300:]}")
    for rows in ("", "[:150]"):
        got = tokenize(f"{ADDRESS}{rows}", HF_HUB_OFFLINE="1")[0]
        ok(got is not None and (rows or got == expected) and not hub.seen, f"offline, an address{rows}")
    hub.hook = lambda seen, usual: Answer(drop=True)
    done = run("train", "--data", DATA, "--out", "off", "--fresh", *TRAIN)
    ok(done.returncode == 0 and "cache is used" in done.stderr, f"the hub does not answer: {done.stderr[-300:]}")
    snapshot = SCRATCH / "cache/datasets--tester--rows/snapshots" / COMMIT / "data"
    for name in ("train-1.jsonl", "train-3.jsonl"):
        (snapshot / name).resolve().unlink()
        (snapshot / name).unlink()
    for data in (DATA, f"{DATA}[:250]", f"{DATA}[train:250]"):
        done = run("train", "--data", data, "--out", "off", "--fresh", *TRAIN, HF_HUB_OFFLINE="1")
        ok(done.returncode == 1 and "2 of 4 files of data set tester/rows are not in the cache" in done.stderr and "dllm pull dataset:tester/rows" in done.stderr, f"offline, two files are missing: {done.stderr.strip()[-300:]}")
    done = run("pull", "dataset:" + DATA, HF_HUB_OFFLINE="1")
    ok(done.returncode == 1 and "2 of 4 files of data set tester/rows are not in the cache" in done.stderr, f"dllm pull says the same: {done.stderr.strip()[-200:]}")
    ok(tokenize(f"{ADDRESS}[:50]", HF_HUB_OFFLINE="1")[0] is not None, "offline, rows of a file that is there")
    done = run("train", "--data", DATA, "--out", "off", "--fresh", *TRAIN)
    ok(done.returncode == 1 and "2 of 4 files of data set tester/rows are not in the cache" in done.stderr, f"the hub does not answer, two files are missing: {done.stderr.strip()[-400:]}")
    hub.hook = None
    ok(run("pull", "dataset:" + DATA).returncode == 0, "dllm pull loads them")
    tree.write_text("{")
    done = run("train", "--data", DATA, "--out", "off", "--fresh", *TRAIN, HF_HUB_OFFLINE="1")
    ok(done.returncode == 0 and "is not used" in done.stderr, f"offline, a damaged list: the files that are there {done.stderr.strip()[-300:]}")
    ok(run("pull", "dataset:" + DATA).returncode == 0 and len(json.loads(tree.read_text())["files"]) == 4, "the next pull writes the list again")
    done = run("models", "remove", f"dataset:{DATA}@{COMMIT}")
    ok(done.returncode == 0 and not tree.exists(), f"the list goes with the revision: {done.stderr[-200:]}")


def huggingface_hub():
    python = os.environ.get("DLLM_HUB_PYTHON", sys.executable)

    def ask(code, **more):
        return subprocess.run([python, "-c", code], env=environment(**more), text=True, capture_output=True, timeout=120)

    if ask("import huggingface_hub").returncode != 0:
        print(f"skipped: {python} has no huggingface_hub")
        return
    files = {f"train-{i}.jsonl": jsonl(texts(50, 80, f"file{i}")) for i in range(2)}
    clear(repo(files))
    tokenize(f"{ADDRESS}[:5]")
    run("train", "--data", f"{DATA}[:60]", "--out", "python", *TRAIN)
    scan = "from huggingface_hub import scan_cache_dir as scan; found = scan(); print(len(found.repos), found.warnings)"
    ok(ask(scan).stdout.strip() == "1 []", f"Python reads the cache after limited rows: {ask(scan).stdout}{ask(scan).stderr[-300:]}")
    get = f"from huggingface_hub import snapshot_download as get; print(get('{DATA}', repo_type='dataset', local_files_only=True))"
    done = ask(get)
    has_lists = ask("import huggingface_hub._tree_cache").returncode == 0
    ok(not has_lists or (done.returncode != 0 and "2 file(s) are missing" in done.stderr), f"Python counts the missing files: {done.stderr[-300:]}")
    ok(run("pull", "dataset:" + DATA).returncode == 0 and ask(get).returncode == 0, f"and that all are there: {ask(get).stderr[-300:]}")
    shutil.rmtree(SCRATCH / "cache")
    ok(ask(get.replace(", local_files_only=True", "")).returncode == 0, "Python pulls")
    if has_lists:
        (SCRATCH / "cache/datasets--tester--rows/snapshots" / COMMIT / "train-1.jsonl").unlink()
        done = run("train", "--data", DATA, "--out", "python", "--fresh", *TRAIN, HF_HUB_OFFLINE="1")
        ok(done.returncode == 1 and "1 of 2 files" in done.stderr, f"dllm reads the list of Python: {done.stderr.strip()[-300:]}")


def main():
    program.empty_folder()
    (SCRATCH / "text").write_text("\n".join(LINES))
    clear(repo({"a.jsonl": jsonl(LINES)}))
    if "libcurl" in run("pull", "dataset:" + DATA).stderr:
        print("skipped: this system has no libcurl")
        return 77
    done = run("tokenizer-train", "--data", "text", "--vocab", "300", "--out", "tokenizer.json")
    ok(done.returncode == 0, f"a tokenizer of this test {done.stderr[-300:]}")
    return hub.run_parts((equal_rows, only_what_is_needed, faults, damaged, full_disk, two_at_once, cancels, in_order, progress, names, offline, huggingface_hub), program)


if __name__ == "__main__":
    sys.exit(main())
