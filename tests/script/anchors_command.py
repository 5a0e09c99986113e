"""dllm anchors, and dllm train --teacher FOLDER.   anchors_command.py DLLM SCRATCH"""
import array
import hashlib
import json
import pathlib
import re
import signal
import subprocess
import sys
import time

from cli_options import LINES, Program

DLLM, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2])
program = Program(DLLM, SCRATCH)
ok = program.ok
ROWS = ["--data", "corpus", "--rows", "line", "--pack", "false", "--length", "48", "--batch", "4"]
PACKED = ["--data", "corpus", "--rows", "line", "--length", "48", "--batch", "4"]
LOOP = ["--eval-every", "0", "--examples", "0", "--lr", "0.01", "--warmup", "0"]


def run(*words, code=0):
    done = program.run(*words)
    ok(done.returncode == code, f"{' '.join(words)}: exit {done.returncode} {done.stderr[-400:] if done.returncode != code else ''}")
    return done


def anchors(out, *words, rows=ROWS, teacher="base", code=0):
    return run("anchors", teacher, *rows, "--out", out, *words, code=code)


def files_of(folder):
    return {str(path.relative_to(SCRATCH / folder)): path.read_bytes() for path in sorted((SCRATCH / folder).rglob("*")) if path.is_file()}


def arrays_of(content):
    """The arrays of a safetensors file: {name: (type, shape, bytes)}."""
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8:8 + size])
    return {name: (about["dtype"], about["shape"], content[8 + size + about["data_offsets"][0]:8 + size + about["data_offsets"][1]])
            for name, about in header.items() if name != "__metadata__"}


def floats(entry):
    kind, _, content = entry
    if kind == "BF16":
        content = b"".join(b"\0\0" + content[i:i + 2] for i in range(0, len(content), 2))
    return array.array("b" if kind == "I8" else "f", content)


def losses(out, *words, rows=ROWS):
    """The losses of each step, and the parts of them."""
    run("train", *rows, *LOOP, "--out", out, "--from", "base", "--steps", "6", *words)
    lines = [json.loads(line) for line in (SCRATCH / out / "metrics.jsonl").read_text().splitlines()]
    return [(line["loss"], line.get("align"), line.get("distill")) for line in lines if line["event"] == "train_step"]


def apart(some, others):
    return max(abs(a - b) for one, other in zip(some, others) for a, b in zip(one, other) if a is not None)


program.empty_folder()
(SCRATCH / "corpus").write_text("\n".join(LINES) + "\n")
(SCRATCH / "other").write_text("\n".join(line[::-1] for line in LINES) + "\n")
run("train", *ROWS, *LOOP, "--out", "made", "--layers", "3", "--hidden", "64", "--vocab", "300", "--steps", "20")
run("export", "made", "base")
run("train", *ROWS, *LOOP, "--out", "stranger", "--from", "base", "--steps", "2")

# ---- the files ----
done = anchors("f32", "--store", "f32", "--json")
report, whole = json.loads(done.stdout), files_of("f32")
chunks = {name: content for name, content in whole.items() if name.endswith(".safetensors")}
ok(report == {"chunks": len(chunks), "complete": True, "out": "f32"} and len(chunks) > 100, f"reports {report}")
for name, content in chunks.items():
    arrays = arrays_of(content)
    key = hashlib.sha256(arrays["input_ids"][2]).hexdigest()[:16]
    tokens = len(arrays["input_ids"][2]) // 8
    good = name == f"{key[:2]}/{key}.safetensors" and set(arrays) == {"input_ids", "hidden_layer_1", "hidden_layer_2", "hidden_layer_3"}
    good = good and all(arrays[f"hidden_layer_{i}"][:2] == ("F32", [tokens, 64]) for i in (1, 2, 3)) and arrays["input_ids"][:2] == ("I64", [tokens])
    if not good:
        ok(False, f"{name}: {[(array, about[:2]) for array, about in arrays.items()]}")
        break
ok(json.loads(whole["manifest.json"]) == {"num_hidden_layers": 3, "hidden_size": 64, "layers": [1, 2, 3]}, "manifest.json")
anchors("all", "--layers", "all")
ok(set(arrays_of(files_of("all")[name])) == {"input_ids", *(f"hidden_layer_{i}" for i in range(4))}, "--layers all: with the embedding")
pair = [floats(arrays_of(files[name])["hidden_layer_2"]) for files in (whole, files_of("all"))]
ok(all(abs(a - b) <= abs(a) / 256 for a, b in zip(*pair)) and pair[0] != pair[1], "bf16 is the usual store")

# ---- equal bytes: twice, in packed rows, after a kill, in shards at once ----
anchors("twice", "--store", "f32")
ok(files_of("twice") == whole, "made twice: equal bytes")
ok("0 new anchors" in anchors("twice", "--store", "f32", "--engine.threads", "1").stderr, "a whole folder stays")
anchors("one", "--store", "f32", "--engine.threads", "1", rows=[*ROWS[:-1], "1"])
ok(files_of("one") == whole, "one chunk a pass on one thread: equal bytes")
anchors("packed", "--store", "f32", rows=PACKED)
shared = [name for name in chunks if name in files_of("packed")]
ok(len(shared) > 40 and all(files_of("packed")[name] == chunks[name] for name in shared), f"{len(shared)} whole lines of packed rows: equal bytes")
words = [DLLM, "anchors", "base", *ROWS[:-1], "1", "--store", "f32", "--engine.threads", "1", "--out"]
for kill_at in (1, 30):
    child = subprocess.Popen([*words, f"killed{kill_at}"], cwd=SCRATCH, stderr=subprocess.DEVNULL)
    while child.poll() is None and len(list((SCRATCH / f"killed{kill_at}").glob("*/*.safetensors"))) < kill_at:
        time.sleep(0.001)
    child.send_signal(signal.SIGKILL)
    child.wait()
    anchors(f"killed{kill_at}", "--store", "f32")
    # What the killed process left has a word after the name of its chunk.
    found = {name: content for name, content in files_of(f"killed{kill_at}").items() if not re.search(r"\.safetensors\..", name)}
    ok(found == whole, f"after kill -9 at {kill_at} files: equal bytes")
shards = [subprocess.Popen([*words, "shards", "--shards", "3", "--shard", str(i)], cwd=SCRATCH, stderr=subprocess.PIPE, text=True) for i in range(3)]
said = [process.communicate()[1] for process in shards]
ok(files_of("shards") == whole and all(process.returncode == 0 for process in shards), f"three shards at once: equal bytes {said}")
ok(sum(int(re.search(r"(\d+) new anchors", text)[1]) for text in said) == len(chunks), f"each chunk is made once: {said}")
for _ in range(4):  # all of them find that nothing is missing, and each writes the manifest
    again = [subprocess.Popen([*words, "shards"], cwd=SCRATCH, stderr=subprocess.PIPE, text=True) for _ in range(6)]
    said = [process.communicate()[1] for process in again]
    ok(files_of("shards") == whole and not any(process.returncode for process in again), f"six at once in a whole folder {said}")
done = anchors("part", "--store", "f32", "--shards", "2", "--shard", "1")
ok("the last shard writes manifest.json" in done.stderr and "manifest.json" not in files_of("part"), f"one shard of two: {done.stderr}")
done = run("train", *ROWS, *LOOP, "--out", "x", "--from", "base", "--steps", "2", "--align", "1", "--teacher", "part", code=1)
ok("written after all anchors" in done.stderr or "manifest.json" in done.stderr, f"anchors that are not whole are refused: {done.stderr}")

# ---- training ----
live = losses("live", "--align", "1", "--teacher", "./base")
ok(live[0][1] is not None and live[-1][1] > 1e-5, f"a live teacher: {live}")
ok(losses("cached", "--align", "1", "--teacher", "f32") == live, "anchors in f32: the losses of the live teacher, bit for bit")
some = ["--align", "1", "--align-layers", "1,3", "--align-share", "0.5", "--align-kind", "infonce"]
ok(losses("live2", *some, "--teacher", "./base") == losses("cached2", *some, "--teacher", "f32"), "some layers and positions: the same losses")
both = [losses(f"packed{i}", "--align", "1", "--teacher", teacher, rows=PACKED) for i, teacher in enumerate(("./base", "packed"))]
ok(apart(*both) < 1e-4, f"packed rows: {apart(*both)}")
anchors("int8", "--store", "int8")
anchors("groups", "--store", "int8", "--group", "16")
for name, content in chunks.items():
    exact, packed = arrays_of(content), arrays_of(files_of("int8")[name])
    for layer in ("hidden_layer_1", "hidden_layer_3"):
        numbers, scales, states = floats(packed[layer]), floats(packed[f"{layer}.scale"]), floats(exact[layer])
        worst = max(abs(n * scales[i // 64] - x) / max(map(abs, states[i // 64 * 64:i // 64 * 64 + 64])) for i, (n, x) in enumerate(zip(numbers, states)))
        if worst > 1 / 253.9:
            ok(False, f"{name} {layer}: an error of {worst} of the largest number")
    if name == list(chunks)[9]:
        break
sizes = {name: sum(map(len, files_of(name).values())) for name in ("f32", "all", "int8")}
ok(sizes["int8"] < 0.36 * sizes["f32"], f"int8 is small: {sizes}")
errors = {name: apart(live, losses(f"of_{name}", "--align", "1", "--teacher", name)) for name in ("int8", "groups", "all")}
ok(0 < errors["groups"] and max(errors.values()) < 2e-3, f"int8 and bf16 near the live teacher: {errors}")

# ---- distillation: all logits in a cache are what the live teacher says ----
anchors("top", "--store", "f32", "--top", "300", "--attention", "causal")
anchors("top8", "--top", "8", "--attention", "causal")
distilled = ["--distill", "1", "--teacher-attention", "causal", "--teacher-input", "clean", "--teacher"]
for kind in ("forward", "reverse", "js"):
    pair = [losses(f"{kind}{i}", "--distill-kind", kind, *distilled, teacher) for i, teacher in enumerate(("./base", "top"))]
    ok(apart(*pair) < 1e-4 and pair[0][0][2] > 1e-3, f"distillation of cached logits, {kind}: {pair}")
    ok(losses(f"{kind}8", "--distill-kind", kind, "--distill", "1", "--teacher", "top8")[0][2] > 0, f"{kind} of 8 logits")
ok(losses("distilled8", "--distill", "1", "--align", "1", "--teacher", "top8")[0][2] > 0, "of 8 logits, with an alignment")
done = anchors("x", "--top", "8", "--model.attention", "bidirectional", code=1)
ok("sees the tokens that it predicts" in done.stderr, f"top logits of a bidirectional teacher: {done.stderr}")

# ---- what is refused ----
first, second = list(chunks)[:2]
CHANGED = {"layers": ["--layers", "1"], "store": ["--store", "bf16"], "top": ["--top", "4", "--attention", "causal"], "attention": ["--attention", "causal"],
           "teacher.arithmetic": ["--arithmetic", "bf16"]}
for name, words in CHANGED.items():
    done = anchors("f32", *(words if name == "store" else ["--store", "f32", *words]), code=1)
    named = re.search(r"was made with (\S+) (.+), here (.+)", done.stderr)
    ok(named and named[1] in (name, "attention") and named[2] != named[3] and "--fresh" in done.stderr, f"{name}: refused: {done.stderr}")
done = anchors("f32", "--store", "f32", teacher="stranger", code=1)
ok("was made with teacher.weights" in done.stderr, f"another teacher: {done.stderr}")
ok(files_of("f32") == whole, "a refused call changes nothing")
done = anchors("groups", "--store", "int8", "--group", "16", "--layers", "2", "--fresh")
ok(set(arrays_of(files_of("groups")[first])) == {"input_ids", "hidden_layer_2", "hidden_layer_2.scale"}, "--fresh begins again")
for words, said in ((["--layers", "4"], "the model has 3 layers"), (["--group", "8"], "store to int8"), (["--store", "int8", "--group", "7"], "does not divide"),
                    (["--shard", "2"], "less than 1")):
    done = anchors("x", *words, code=1)
    ok(said in done.stderr.replace("set --store int8", "store to int8"), f"{words}: {done.stderr}")

# ---- a text that the cache lacks ----
align = ["train", *LOOP, "--from", "base", "--steps", "3", "--align", "1", "--teacher", "f32", "--out", "x"]
done = run(*align, "--rows", "line", "--pack", "false", "--length", "48", "--data", "other", code=1)
named = re.search(r'has no anchors of row (\d+) "(.+?)\.*": \d+ tokens \[\d+, ', done.stderr)
ok(named and named[2][:20] in (SCRATCH / "other").read_text() and "run dllm anchors" in done.stderr, f"a miss names the text: {done.stderr}")
done = run(*align, *ROWS, "--align-layers", "0,2", code=1)
ok("hidden_layer_0" in done.stderr and "--align-layers" in done.stderr, f"a layer that the cache lacks: {done.stderr}")
for name in chunks:
    (SCRATCH / "twice" / name).write_bytes(chunks[second if name == first else first])
done = run(*[word if word != "f32" else "twice" for word in align], *ROWS, code=1)
ok("has other tokens than the name of the file says" in done.stderr, f"a file of other tokens: {done.stderr}")
run("train", *ROWS, *LOOP, "--out", "small", "--layers", "2", "--hidden", "64", "--vocab", "300", "--steps", "2")
done = run("train", *ROWS, *LOOP, "--from", "small", "--steps", "2", "--align", "1", "--teacher", "f32", "--out", "y", code=1)
ok("has num_hidden_layers 3, and the model has 2" in done.stderr, f"a teacher of another size: {done.stderr}")
(SCRATCH / "elsewhere").mkdir()
done = subprocess.run([DLLM, "train", "--out", "../cached", "--steps", "8"], cwd=SCRATCH / "elsewhere", capture_output=True, text=True)
ok(done.returncode == 0, f"goes on from another folder: {done.stderr[-300:]}")
sys.exit(program.failures > 0)
