"""Names of the hub in the commands of the program, and the cache that Python's huggingface_hub shares.

hub_names.py DLLM SCRATCH

$DLLM_HUB_PYTHON, else this Python, runs the part with huggingface_hub. Exit status 77: skipped, there is no libcurl.
"""
import json
import os
import pathlib
import struct
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from cli_options import LINES, Program  # noqa: E402
from hub_server import COMMIT, Hub, Repo  # noqa: E402

DLLM, SCRATCH = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
program = Program(str(DLLM), SCRATCH)
ok = program.ok
hub = Hub()
NAME, DATA, ADAPTER = "tester/tiny", "tester/lines", "tester/adapter"
PYTHON = os.environ.get("DLLM_HUB_PYTHON", sys.executable)


def run(*words, cache="cache", stdin="", **more):
    return subprocess.run([str(DLLM), *words], cwd=SCRATCH, env=hub.environment(SCRATCH, cache, **more), text=True, capture_output=True,
                          timeout=120, input=stdin)


def repo_of(folder):
    files = {path.name: path.read_bytes() for path in sorted((SCRATCH / folder).iterdir()) if path.is_file()}
    return Repo(files, large=[name for name in files if name.endswith(".safetensors")])


def make_adapter():
    """A LoRA adapter of one matrix in the files of PEFT."""
    folder, name = SCRATCH / "adapter", "base_model.model.model.layers.0.self_attn.q_proj.lora_{}.weight"
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 2, "lora_alpha": 64, "target_modules": ["q_proj"]}))
    rows = {name.format("A"): [2, 64], name.format("B"): [64, 2]}
    head, data = {}, b""
    for key, shape in rows.items():
        numbers = struct.pack("<128f", *((i % 7 - 3) * 0.3 for i in range(128)))
        head[key] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(numbers)]}
        data += numbers
    text = json.dumps(head).encode()
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


def make_repositories():
    (SCRATCH / "text").write_text("\n".join(LINES))
    (SCRATCH / "rows.jsonl").write_text("\n".join(json.dumps({"text": line}) for line in LINES))
    done = run("train", "--data", "text", "--rows", "line", "--layers", "1", "--hidden", "64", "--vocab", "300", "--length", "32",
               "--batch", "4", "--steps", "2", "--out", "run")
    ok(done.returncode == 0, f"a model of this test {done.stderr[-300:]}")
    done = run("export", "run", "made")
    ok(done.returncode == 0, f"its folder {done.stderr[-300:]}")
    hub.repos[NAME] = repo_of("made")
    make_adapter()
    hub.repos[ADAPTER] = repo_of("adapter")
    hub.repos["datasets/" + DATA] = Repo({"README.md": b"# rows", "data/train-00000.jsonl": (SCRATCH / "rows.jsonl").read_bytes(),
                                          "data/test-00000.jsonl": b'{"text": "the end"}\n'}, large=["data/train-00000.jsonl"])


def same(words, by_name, by_path, what):
    """The command has one result with the name and with the path."""
    named, local = run(*[word.replace("MODEL", by_name) for word in words]), run(*[word.replace("MODEL", by_path) for word in words])
    ok(named.returncode == 0, f"{what}: runs {named.stderr[-300:] if named.returncode else ''}")
    ok(named.stdout.replace(str(SCRATCH / "cache"), "") == local.stdout or named.stdout.splitlines()[1:] == local.stdout.splitlines()[1:], f"{what}: the same result as with the path")


def commands():
    generate = ["generate", "MODEL", "the cat", "--length", "8", "--steps", "4", "--json"]
    hub.seen = []
    same(generate, NAME, "made", "generate")
    ok(sum("safetensors" in seen.path for seen in hub.seen if seen.method == "GET") == 1, "generate: pulled once")
    hub.seen = []
    same(generate, NAME, "made", "generate again")
    same(["infill", "MODEL", "the <mask:3> sat", "--json"], NAME, "made", "infill")
    same(["inspect", "MODEL"], NAME, "made", "inspect")
    same(["tokenize", "--tokenizer", "MODEL", "the cat"], NAME, "made", "tokenize")
    same(["graph", "MODEL", "--json"], NAME, "made", "graph")
    ok(run("verify", NAME).returncode == 0, "verify")
    same(["eval", "--task", "text", "--model", "MODEL", "--data", "text", "--limit", "8", "--json"], NAME, "made", "eval")
    for command in (["quantize", "MODEL", "small.gguf", "--format", "q8_0"], ["convert", "MODEL", "converted"]):
        done = run(*[word.replace("MODEL", NAME) for word in command])
        ok(done.returncode == 0 and (SCRATCH / command[2]).exists(), f"{command[0]}: {done.stderr[-200:]}")
    ok(not hub.seen, f"a name in the cache does not need the hub: {hub.seen[:3]}")
    train = ["--steps", "2", "--batch", "4", "--length", "32", "--rows", "line"]
    done = run("train", "--from", NAME, "--tokenizer", NAME, "--data", "text", "--out", "from_name", *train)
    ok(done.returncode == 0, f"train --from: {done.stderr[-300:]}")
    adapter = ["generate", "made", "the cat", "--length", "8", "--steps", "4", "--json", "--adapter", "MODEL"]
    same(adapter, ADAPTER, "adapter", "generate --adapter")
    ok(run(*adapter[:-2]).stdout != run(*adapter[:-1], ADAPTER).stdout, "the adapter changes the text")


def data_sets():
    train = ["--layers", "1", "--hidden", "64", "--vocab", "300", "--length", "32", "--batch", "4", "--steps", "2"]
    for what, given in {"a data set": f"dataset:{DATA}", "without the word": DATA, "a split": f"{DATA}[train:50]",
                        "a file": f"dataset:{DATA}:data/train-00000.jsonl", "two sources": f"text[:10]+{DATA}*0.5"}.items():
        done = run("train", "--data", given, "--out", "data_" + what.replace(" ", "_"), *train)
        ok(done.returncode == 0, f"train --data: {what} {done.stderr[-300:] if done.returncode else ''}")
    ok(not (SCRATCH / "cache" / "datasets--tester--lines/snapshots" / COMMIT / "README.md").exists(), "only rows are loaded")


def paths_are_not_names():
    hub.seen = []
    for words in (["generate", "run/none", "x"], ["inspect", "./none/x"], ["inspect", "a/b/c"], ["inspect", "none"],
                  ["inspect", "/nowhere/x"], ["inspect", "s3x://a/b"]):
        done = run(*words)
        ok(done.returncode == 1 and "there is no file or folder" in done.stderr, f"{words}: {done.stderr.strip()[:200]}")
    ok(not hub.seen, f"a path is not sent to the hub: {hub.seen}")
    hub.repos["tester/odd"] = Repo({"config.json": b'{"model_type": "odd"}', "model.safetensors": b"x" * 5000}, large=["model.safetensors"])
    done = run("generate", "tester/odd", "x")
    ok(done.returncode == 1 and "odd" in done.stderr and "weights were not loaded" in done.stderr and not any(seen.server == "store" for seen in hub.seen), f"a family that dllm does not read: {done.stderr.strip()[-300:]}")
    done = run("generate", "tester/none", "x")
    ok(done.returncode == 1 and "there is no file or folder tester/none, and as a name of the hub" in done.stderr, f"a name that the hub lacks: {done.stderr.strip()[:300]}")
    done = run("generate", "tester/none", "x", HF_ENDPOINT="http://127.0.0.1:9")
    ok(done.returncode == 1 and "there is no file or folder tester/none" in done.stderr, f"no hub: {done.stderr.strip()[:300]}")
    local = SCRATCH / "tester/tiny"
    local.mkdir(parents=True)
    done = run("inspect", NAME)
    ok(done.returncode == 1 and not hub.count("GET", "tiny"), f"a folder with the path of a name comes first: {done.stderr.strip()[:200]}")
    local.rmdir()
    local.parent.rmdir()


def library_alone():
    """A script loads a name of the cache; below level full it does not."""
    script = SCRATCH / "load.lua"
    script.write_text(f'local dllm = require "dllm"; print(dllm.tokenizer("{NAME}"):size())')
    hub.seen = []
    done = run("run", str(script))
    ok(done.returncode == 0 and not hub.seen, f"a script loads a name of the cache: {done.stderr[-300:]}")
    for level in ("safe", "files"):
        done = run("run", f"--lua.sandbox={level}", "--root", str(SCRATCH), str(script))
        ok(done.returncode != 0, f"a script at level {level} does not: {done.stderr.strip()[-200:]}")
    pulls = SCRATCH / "pull.lua"
    pulls.write_text(f'print(require("dllm").pull("{NAME}", {{revision = "main"}}))')
    done = run("run", str(pulls))
    ok(done.returncode == 0 and COMMIT in done.stdout, f"a script pulls at level full: {done.stderr.strip()[-300:]}")
    for level in ("safe", "files"):
        done = run("run", f"--lua.sandbox={level}", "--root", str(SCRATCH), str(pulls))
        ok(done.returncode != 0 and "does not allow dllm_hub_pull" in done.stderr, f"nor does it pull: {done.stderr.strip()[-200:]}")
    done = run("run", str(script), cache="empty")
    ok(done.returncode == 1 and f"dllm pull {NAME}" in done.stderr, f"a name that is not in the cache: {done.stderr.strip()[-300:]}")


def python(code, cache):
    return subprocess.run([PYTHON, "-c", code], env=hub.environment(SCRATCH, cache), text=True, capture_output=True, timeout=120)


def huggingface_hub():
    found = python("import huggingface_hub; print(huggingface_hub.__version__)", "cache")
    if found.returncode != 0:
        print(f"skipped: {PYTHON} has no huggingface_hub")
        return
    print(f"# huggingface_hub {found.stdout.strip()}")
    done = python(f"from huggingface_hub import hf_hub_download as get\n"
                  f"print(get('{NAME}', 'model.safetensors', local_files_only=True))\n"
                  f"print(get('{DATA}', 'data/test-00000.jsonl', repo_type='dataset', local_files_only=True))", "cache")
    ok(done.returncode == 0 and len(done.stdout.split()) == 2, f"Python finds what dllm pulled: {done.stdout}{done.stderr[-300:]}")
    hub.seen = []
    done = python(f"from huggingface_hub import snapshot_download as get\nprint(get('{NAME}', allow_patterns=['*.json', '*.safetensors']))", "python")
    ok(done.returncode == 0, f"Python pulls: {done.stderr[-500:]}")
    hub.seen = []
    done = run("generate", NAME, "the cat", "--length", "4", "--steps", "2", cache="python", HF_HUB_OFFLINE="1")
    ok(done.returncode == 0 and not hub.seen, f"dllm uses what Python pulled: {done.stderr[-300:]}")
    done = run("pull", NAME, cache="python")
    ok(done.returncode == 0 and not any("safetensors" in seen.path and seen.method == "GET" for seen in hub.seen), f"and loads nothing again: {done.stderr[-300:]}")
    ok(run("models", "verify", NAME, cache="python").returncode == 0, "and verifies it")
    done = python(f"from huggingface_hub import scan_cache_dir as scan\nfound = scan()\n"
                  f"print([(r.repo_id, r.repo_type) for r in found.repos], len(found.warnings))", "cache")
    ok(done.returncode == 0 and NAME in done.stdout and DATA in done.stdout and done.stdout.strip().endswith(" 0"), f"Python lists the cache of dllm without a warning: {done.stdout}{done.stderr[-300:]}")


def main():
    program.empty_folder()
    make_repositories()
    if "libcurl" in run("pull", NAME, cache="first").stderr:
        print("skipped: this system has no libcurl")
        return 77
    return hub.run_parts((commands, data_sets, paths_are_not_names, library_alone, huggingface_hub), program)


if __name__ == "__main__":
    sys.exit(main())
