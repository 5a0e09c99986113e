"""dllm serve under clients that know nothing of it: OpenAI's for Python and Node, LangChain, curl.   clients.py DLLM SCRATCH ENVIRONMENT

ENVIRONMENT: a folder for the packages of requirements.txt and package.json, which stay there. Exit 77: they cannot be installed.
"""
import json
import pathlib
import signal
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from cli_options import LINES, Program  # noqa: E402

DLLM, SCRATCH, ENVIRONMENT = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
SCHEMA = {"type": "object", "properties": {"name": {"enum": ["cat", "dog"]}, "age": {"type": "integer"}},
          "required": ["name", "age"], "additionalProperties": False}


def install():
    ENVIRONMENT.mkdir(parents=True, exist_ok=True)
    steps = [[sys.executable, "-m", "venv", "python"], ["python/bin/pip", "install", "--quiet", "-r", str(HERE / "requirements.txt")],
             ["npm", "install", "--silent", "--no-audit", "--no-fund"]]
    shutil.copy(HERE / "package.json", ENVIRONMENT)
    shutil.copy(HERE / "ask.mjs", ENVIRONMENT)  # Node looks for packages in the folder of the program
    for step in steps:
        try:
            done = subprocess.run(step, cwd=ENVIRONMENT, text=True, capture_output=True, timeout=900)
        except OSError as error:
            done = subprocess.CompletedProcess(step, 1, "", str(error))
        if done.returncode:
            print(f"skipped: {' '.join(step[:3])}: {done.stderr[-200:]}")
            sys.exit(77)


def asked(*words):
    done = subprocess.run(words, cwd=ENVIRONMENT, text=True, capture_output=True, timeout=300)
    ok(done.returncode == 0, f"{words[0]} ends: {done.stderr[-600:]}")
    return json.loads(done.stdout) if done.returncode == 0 else {}


def generated(*words):
    return json.loads(program.run(*words, "--json").stdout)


install()
program = Program(DLLM, SCRATCH)
ok = program.ok
program.empty_folder()
(SCRATCH / "corpus").write_text("\n".join(LINES) + "\n")
trained = program.run("train", "--data", "corpus", "--rows", "line", "--length", "48", "--batch", "4", "--eval-every", "0", "--examples", "0",
                      "--layers", "2", "--hidden", "64", "--vocab", "300", "--steps", "30", "--lr", "0.01", "--warmup", "0", "--out", "m")
ok(trained.returncode == 0, f"a model: {trained.stderr[-300:]}")
server = subprocess.Popen([DLLM, "serve", "m", "--port", "0", "--template", "alpaca"], cwd=SCRATCH, stdout=subprocess.PIPE, text=True)
address = server.stdout.readline().strip()
text = generated("generate", "m", "the cat", "--length", "12", "--seed", "7", "--decoder.temperature", "0.9")["completion"]
said = generated("chat", "m", "--template", "alpaca", "--message", "hello", "--length", "8", "--seed", "3", "--decoder.temperature", "0.9")["content"]
for client in (["python/bin/python", "-B", str(HERE / "ask.py")], ["node", "ask.mjs"]):
    name = client[0]
    got = asked(*client, address, json.dumps(SCHEMA))
    if not got:
        continue
    ok(got["models"] == ["m"], f"{name}: models {got['models']}")
    ok(got["completion"] == text and got["completion_stream"] == text, f"{name}: {got['completion']!r}, dllm generate {text!r}")
    ok(got["chat"] == said and got["chat_stream"] == said, f"{name}: {got['chat']!r}, dllm chat {said!r}")
    ok(got["usage"]["total_tokens"] == got["usage"]["prompt_tokens"] + got["usage"]["completion_tokens"] > 0, f"{name}: usage {got['usage']}")
    ok("".join(got["tokens"]) == said and all(number <= 0 for number in got["logprobs"]), f"{name}: log probabilities {got['logprobs']}")
    parsed = json.loads(got["schema"])
    ok(parsed["name"] in ("cat", "dog") and isinstance(parsed["age"], int) and len(parsed) == 2, f"{name}: a schema {parsed}")
    reason, content, (function, arguments) = got["called"]
    ok(reason == "tool_calls" and content is None and function == "animal" and json.loads(arguments)["name"] in ("cat", "dog"), f"{name}: a call {got['called']}")
    ok([list(one) for one in got["called_stream"]] == [[function, arguments]], f"{name}: a stream of a call {got['called_stream']}")
    ok(isinstance(got["after_call"], str), f"{name}: an answer after a call {got['after_call']}")
    ok(got["error"]["status"] == 400 and "99" in got["error"]["message"], f"{name}: an error {got['error']}")
    ok(got["many"] == [text] * 16, f"{name}: 16 at once")
if got := asked("python/bin/python", "-B", str(HERE / "agent.py"), address):
    ok(got["said"] == said and got["stream"] == said, f"LangChain: {got}")
    ok([name for name, _ in got["called"]] == ["Animal"] and isinstance(got["called"][0][1]["age"], int), f"LangChain: a call {got['called']}")
    ok(got["shaped"]["name"] in ("cat", "dog") and isinstance(got["shaped"]["age"], int), f"LangChain: a typed answer {got['shaped']}")
streamed = subprocess.run(["curl", "-sN", f"{address}/chat/completions", "-d",
                           json.dumps({"messages": [{"role": "user", "content": "hello"}], "max_tokens": 8, "seed": 3, "temperature": 0.9, "stream": True})],
                          text=True, capture_output=True, timeout=60).stdout
pieces = [json.loads(line[6:]) for line in streamed.splitlines() if line.startswith("data: {")]
ok("".join(piece["choices"][0]["delta"].get("content") or "" for piece in pieces) == said and streamed.rstrip().endswith("[DONE]"), "curl -N")
server.send_signal(signal.SIGTERM)
ok(server.wait(60) == 0, "SIGTERM")
sys.exit(program.failures > 0)
