"""dllm serve --models: several models by name, loaded for their requests and released for others.   serve_models.py DLLM SCRATCH"""
import json
import pathlib
import random
import shutil
import subprocess
import sys
import threading
import time

from cli_options import LINES, Program
from server_process import ServerProcess

DLLM, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2])
program = Program(DLLM, SCRATCH)
ok = program.ok
random.seed(7)

shutil.rmtree(SCRATCH, ignore_errors=True)
SCRATCH.mkdir(parents=True)
(SCRATCH / "corpus").write_text("\n".join(LINES) + "\n")
COMMON = ["--data", "corpus", "--rows", "line", "--length", "48", "--batch", "4", "--eval-every", "0", "--examples", "0", "--lr", "0.01", "--warmup", "0"]
for seed in (1, 2, 3):
    made = program.run("train", *COMMON, "--layers", "2", "--hidden", "64", "--vocab", "300", "--steps", "20", "--seed", str(seed), "--out", f"m{seed}")
    ok(made.returncode == 0, f"model {seed}: {made.stderr[-300:]}")
made = program.run("train", *COMMON, "--from", "m2", "--lora", "4", "--steps", "10", "--out", "poet")
ok(made.returncode == 0, f"an adapter: {made.stderr[-300:]}")
made = program.run("export", "poet", "poet-peft")
ok(made.returncode == 0, f"an adapter for PEFT: {made.stderr[-300:]}")
(SCRATCH / "models").mkdir()
for name in ("m1", "m2", "m3", "poet", "poet-peft"):
    (SCRATCH / name).rename(SCRATCH / "models" / name)
(SCRATCH / "models/list.json").write_text(json.dumps({
    "first": "m1", "second": {"model": "m2", "adapters": ["poet=poet-peft"], "settings": {"steps": 3, "temperature": 0.8}},
    "third": {"model": "m3", "template": "alpaca"}}))


def model_bytes(server):
    return {name: server.metric(f'dllm_model_weight_bytes{{model="{name}"}}') for name in ("first", "second", "third")}


def loaded(server):
    return [name for name in ("first", "second", "third") if server.metric(f'dllm_model_loaded{{model="{name}"}}') == 1]


def text_of(server, model, seed, chat=False):
    body = {"max_tokens": 10, "seed": seed} | ({"model": model} if model else {})
    if chat:
        return server.json("/v1/chat/completions", {**body, "messages": [{"role": "user", "content": "a dog"}]})["choices"][0]["message"]["content"]
    return server.json("/v1/completions", {**body, "prompt": "the cat"})["choices"][0]["text"]


# ---- each model alone: what dllm generate writes ----
alone = {}
for model, words in (("first", ["models/m1"]), ("second", ["models/m2", "--decoder.steps", "3", "--decoder.temperature", "0.8"]),
                     ("second:poet", ["models/poet", "--decoder.steps", "3", "--decoder.temperature", "0.8"]), ("third", ["models/m3"])):
    for seed in (1, 2):
        done = program.run("generate", words[0], "the cat", *words[1:], "--length", "10", "--seed", str(seed), "--json")
        alone[model, seed] = json.loads(done.stdout)["completion"]
ok(len(set(alone.values())) > 4, f"the models write other texts: {alone}")

# ---- no limit: a model is loaded for its first request and stays ----
server = ServerProcess(DLLM, SCRATCH, "--models", "models/list.json")
ok(loaded(server) == ["first"], f"the first model is loaded at the start: {loaded(server)}")
names = [row["id"] for row in server.json("/v1/models")["data"]]
ok(names == ["first", "second", "second:poet", "third"], f"models: {names}")
names = [row["id"] for row in server.json("/v1/adapters")["data"]]
ok(names == ["second:poet"], f"adapters: {names}")
for path in ("/", "/page.js"):
    status, text, headers = server.ask(path)
    own = text.replace("http://www.w3.org", "")
    ok(status == 200 and "default-src 'none'" in headers["Content-Security-Policy"] and "http://" not in own and "https://" not in own,
       f"{path} names no address of the network: {status}")
ok(text_of(server, None, 1) == alone["first", 1], "a request that names no model")
for (model, seed), wanted in alone.items():
    ok(text_of(server, model, seed) == wanted, f"{model}, seed {seed}")
ok(loaded(server) == ["first", "second", "third"], f"all stay: {loaded(server)}")
sizes = model_bytes(server)
ok(all(size > 100000 for size in sizes.values()), f"bytes {sizes}")
status, text, _ = server.ask("/v1/completions", {"model": "other", "prompt": "a"})
ok(status == 404 and '\\"second:poet\\"' in text, f"an unknown model: {status} {text}")
ok(server.ask("/v1/models/second:poet")[0] == 200 and server.ask("/v1/models/poet")[0] == 404 and server.ask("/v1/models/")[0] == 404, "paths of models")
chats = {model: text_of(server, model, 3, chat=True) for model in ("third",)}
ok(server.ask("/v1/chat/completions", {"model": "first", "messages": [{"role": "user", "content": "a"}], "max_tokens": 4})[0] == 400,
   "the template of one model is not that of another")
ok(server.stop() == 0, "the end")

# ---- room for one model: requests of many threads for all of them are answered, and none has a wrong text ----
room = 1.5 * max(sizes.values()) / 2**30
server = ServerProcess(DLLM, SCRATCH, "--models", "models/list.json", "--weights-memory", f"{room:.9f}")
wrong, most, is_over = [], [], threading.Event()


def watch():
    while not is_over.is_set():
        most.append(len(loaded(server)))
        time.sleep(0.01)


def ask_some(draws):
    for model, seed in draws:
        text = text_of(server, model, seed)
        if text != alone[model, seed]:
            wrong.append((model, seed, text))


watcher = threading.Thread(target=watch)
watcher.start()
askers = [threading.Thread(target=ask_some, args=([random.choice(list(alone)) for _ in range(12)],)) for _ in range(4)]
for thread in askers:
    thread.start()
for thread in askers:
    thread.join()
is_over.set()
watcher.join()
ok(not wrong, f"wrong texts: {wrong[:3]}")
ok(max(most) == 1, f"at most one model is loaded: {max(most)}")
ok(text_of(server, "third", 3, chat=True) == chats["third"], "a chat after its model was loaded again")
done = sum(server.metric(f'dllm_requests_total{{end="completed",model="{name}"}}') for name in sizes)
ok(done == 49, f"texts of all loads are counted: {done}")

# ---- a client that leaves while its model waits for room, and the end while one waits ----
LONG = {"prompt": "a", "max_tokens": 40, "model": "first", "dllm": {"policy": "random", "steps": 40, "stop_ids": ["299"]}, "n": 64}
text_of(server, "first", 1)
long = server.open("/v1/completions", LONG)
gone = server.open("/v1/completions", {"prompt": "the", "max_tokens": 4, "model": "second"})
time.sleep(0.05)
gone.close()
long.close()
ok(text_of(server, "third", 1) == alone["third", 1], "a request after clients that left")
long = server.open("/v1/completions", {**LONG, "model": "third"})
waiting = server.open("/v1/completions", {"prompt": "the", "max_tokens": 4, "model": "second"})
ok(server.stop() == 0, "the end while a model waits for room")
long.close()
waiting.close()

# ---- a model whose files are damaged is an error of its requests alone ----
weights = sorted((SCRATCH / "models/m2").rglob("*.safetensors"))
kept = [path.read_bytes() for path in weights]
server = ServerProcess(DLLM, SCRATCH, "--models", "models/list.json")
for path in weights:
    path.write_bytes(b"\0" * 100)
status, text, _ = server.ask("/v1/completions", {"model": "second", "prompt": "a", "max_tokens": 4})
ok(status == 500 and 'model "second"' in json.loads(text)["error"]["message"], f"damaged weights: {status} {text}")
ok(text_of(server, "first", 1) == alone["first", 1], "another model answers")
for path, content in zip(weights, kept):
    path.write_bytes(content)
ok(text_of(server, "second", 1) == alone["second", 1], "the files are whole again")
ok(server.stop() == 0, "the end")

# ---- a model of the hub's cache has its name there; weights that grow when they are loaded are refused ----
place = SCRATCH / "cache/models--me--tiny/snapshots/0123"
shutil.copytree(SCRATCH / "models/m1", place)
server = ServerProcess(DLLM, SCRATCH, str(place))
ok(server.json("/v1/models")["data"][0]["id"] == "me/tiny", f"the name of a model of the hub: {server.json('/v1/models')}")
ok(server.stop() == 0, "the end")
made = program.run("convert", "models/m2", "models/m2-q8.gguf", "--format", "q8_0")
ok(made.returncode == 0, f"a model in 8 bits: {made.stderr[-300:]}")
(SCRATCH / "grow.json").write_text(json.dumps({"small": "models/m2-q8.gguf"}))
refused = program.run("serve", "--models", "grow.json", "--port", "0", "--model.dtype", "f32", "--weights-memory", f"{0.9 * sizes['second'] / 2**30:.9f}")
ok(refused.returncode == 1 and "of weights, and the models together may have" in refused.stderr, f"too large: {refused.stderr[-300:]}")
seeded = program.run("serve", "models/m1", "--port", "0", "--model.seed", "3")
ok(seeded.returncode == 2 and "--model.seed" in seeded.stderr, f"--model.seed: {seeded.stderr[-300:]}")

# ---- mistakes end the program and name the place ----
FILES = {
    "no.json": ("{", "not a JSON object"), "list.json": ("[1]", "not a JSON object"), "empty.json": ("{}", "not a JSON object"),
    "colon.json": ('{"a:b": "models/m1"}', "a:b"), "key.json": ('{"a": {"model": "models/m1", "tempalte": "x"}}', "tempalte"),
    "none.json": ('{"a": {"template": "chatml"}}', "no \"model\""), "number.json": ('{"a": 3}', '"a"'), "path.json": ('{"a": "models/nothing"}', "models/nothing"),
    "setting.json": ('{"a": {"model": "models/m1", "settings": {"stepz": 3}}}', "stepz"),
    "adapter.json": ('{"a": {"model": "models/m1", "adapters": ["poet"]}}', "NAME=PATH"), "twice.json": ('{"a": {"model": "models/m2", "adapters": ["p=models/poet-peft", "p=models/poet-peft"]}}', "named p"),
    "run.json": ('{"a": {"model": "models/m2", "adapters": ["p=models/poet"]}}', "dllm export"),
    "folder.json": ('{"a": {"model": "models/m2", "adapters": ["p=models/m1"]}}', "adapter_config.json")}
for name, (content, part) in FILES.items():
    (SCRATCH / name).write_text(content)
cases = [(["--models", name], part) for name, (_, part) in FILES.items()]
cases += [(["models/m1", "--models", "models/list.json"], "--models"), (["--models", "models/list.json", "--name", "x"], "--name"), ([], "model"),
          (["--models", "nothing.json"], "nothing.json"), (["--models", "models/list.json", "--weights-memory", "0.00001"], "--weights-memory"),
          (["--models", "models/list.json", "--weights-memory", "-1"], "--weights-memory"),
          (["--models", "models/list.json", "--adapter-folders", "p=models/poet-peft"], "--models")]
for words, part in cases:
    ended = subprocess.run([DLLM, "serve", "--port", "0", *words], cwd=SCRATCH, capture_output=True, text=True, timeout=60)
    ok(ended.returncode in (1, 2) and part in ended.stderr, f"{words}: exit {ended.returncode}, {ended.stderr[:300]}")
sys.exit(program.failures > 0)
