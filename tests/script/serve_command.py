"""dllm serve: its answers, streams, refusals, and clients that leave.   serve_command.py DLLM SCRATCH"""
import json
import math
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

from cli_options import LINES, Program
from server_process import ServerProcess

DLLM, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2])
program = Program(DLLM, SCRATCH)
ok = program.ok
FIXED = 3  # DLLM_FIXED
random.seed(5)


def Server(*words, before=None):
    return ServerProcess(DLLM, SCRATCH, "m", *words, before=before)


def pieces_of(text):
    """The events of a stream: (name, data)."""
    events = []
    for block in text.strip().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n"))
        events.append((lines.get("event"), lines["data"] if lines["data"] == "[DONE]" else json.loads(lines["data"])))
    return events


def wait_for(condition, what):
    until = time.time() + 60
    while not condition() and time.time() < until:
        time.sleep(0.01)
    ok(condition(), what)


shutil.rmtree(SCRATCH, ignore_errors=True)
SCRATCH.mkdir(parents=True)
(SCRATCH / "corpus").write_text("\n".join(LINES) + "\n")
trained = program.run("train", "--data", "corpus", "--rows", "line", "--length", "48", "--batch", "4", "--eval-every", "0", "--examples", "0",
                      "--layers", "2", "--hidden", "64", "--vocab", "300", "--steps", "30", "--lr", "0.01", "--warmup", "0", "--out", "m")
ok(trained.returncode == 0, f"a model: {trained.stderr[-300:]}")

# ---- the same text as dllm generate ----
server = Server("--template", "alpaca")
requests = [
    ({"prompt": "the cat", "max_tokens": 12, "seed": 7}, ["the cat", "--length", "12", "--seed", "7"]),
    ({"prompt": "the", "max_tokens": 9, "seed": 2, "temperature": 0.9, "dllm": {"policy": "random", "steps": 4}},
     ["the", "--length", "9", "--seed", "2", "--policy", "random", "--decoder.steps", "4", "--decoder.temperature", "0.9"]),
    ({"prompt": "a", "max_tokens": 16, "seed": 1, "stop": ["a"], "temperature": 1.0},
     ["a", "--length", "16", "--seed", "1", "--until", "a", "--decoder.temperature", "1"]),
    ({"prompt": "x", "max_tokens": 8, "seed": 4, "dllm": {"choices": ["red", "green"]}}, ["x", "--length", "8", "--seed", "4", "--choices", "red,green"])]
for body, words in requests:
    wanted = json.loads(program.run("generate", "m", *words, "--json").stdout)["completion"]
    answer = server.json("/v1/completions", body)
    ok(answer["choices"][0]["text"] == wanted, f"{body}: {answer['choices'][0]['text']!r}, dllm generate: {wanted!r}")
    usage = answer["usage"]
    ok(usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] and usage["prompt_tokens"] > 0, f"{usage}")
    status, text, headers = server.ask("/v1/completions", {**body, "stream": True, "stream_options": {"include_usage": True}, "dllm": {**body.get("dllm", {}), "canvas": True}})
    events = pieces_of(text)
    ok(headers["Content-Type"] == "text/event-stream" and events[-1][1] == "[DONE]", "a stream ends with [DONE]")
    plain = [data for name, data in events if name is None and data != "[DONE]"]
    ok("".join(data["choices"][0]["text"] for data in plain if data["choices"]) == wanted, "the pieces of a stream are the text")
    ok(plain[-1]["choices"] == [] and plain[-1]["usage"] == usage, f"usage of a stream {plain[-1]}")
    echoed = [data for _, data in pieces_of(server.ask("/v1/completions", {**body, "stream": True, "echo": True})[1]) if data != "[DONE]"]
    ok("".join(data["choices"][0]["text"] for data in echoed) == body["prompt"] + wanted, f"a stream with an echo: {echoed}")
    canvases = [data for name, data in events if name == "canvas"]
    scored = server.json("/v1/completions", {**body, "logprobs": 0})["choices"][0]
    numbers, last = scored["logprobs"], canvases[-1]
    own = [c for c, state in zip(last["confidence"], last["states"]) if state != FIXED][:len(numbers["tokens"])]
    written = [math.log(c) if c > 0 else None for c in own]
    ok("".join(numbers["tokens"]) == wanted == scored["text"] and numbers["token_logprobs"] == written, f"log probabilities {numbers}, of the canvas {written}")
    ends = [offset + len(token) for offset, token in zip(numbers["text_offset"], numbers["tokens"])]
    ok(numbers["text_offset"][1:] == ends[:-1] and numbers["text_offset"][0] == len(body["prompt"]), f"offsets {numbers}")
    pieces = [data for name, data in pieces_of(server.ask("/v1/completions", {**body, "stream": True, "logprobs": 0})[1]) if data != "[DONE]"]
    ok([piece["choices"][0]["logprobs"] for piece in pieces] == [None] * (len(pieces) - 1) + [numbers], "a stream has the log probabilities in its last piece")
    ok(canvases and canvases[-1]["step"] >= 1 and len(canvases[-1]["ids"]) == len(canvases[-1]["confidence"]), f"{len(canvases)} canvases")
broken = 0
for seed in range(40):  # bytes that are no characters have another number of replacements in the text than in the tokens
    body = {"prompt": "the", "max_tokens": 12, "seed": seed, "temperature": 6, "logprobs": 0, "dllm": {"policy": "random", "steps": 12}}
    answer = server.json("/v1/completions", body)
    choice, count = answer["choices"][0], answer["usage"]["completion_tokens"]
    tokens = choice["logprobs"]["tokens"]
    ok(len(tokens) == count, f"{count} tokens have {len(tokens)} log probabilities: {choice}")
    broken += "".join(tokens) != choice["text"]
    stopped = server.json("/v1/completions", {**body, "stop": [tokens[-1]]}) if tokens and tokens[-1] not in ("", "\uFFFD") else None
    if stopped and tokens.index(tokens[-1]) == len(tokens) - 1 and choice["text"].count(tokens[-1]) == 1:
        kept = stopped["choices"][0]["logprobs"]["tokens"]
        ok(kept == tokens[:-1] and stopped["usage"]["completion_tokens"] == count - 1, f"before a stop text: {stopped}, without it: {choice}")
ok(broken > 0, "no answer has a broken character")
chat = {"messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}], "max_tokens": 8, "seed": 3}
said = server.json("/v1/chat/completions", chat)["choices"][0]
wanted = json.loads(program.run("chat", "m", "--template", "alpaca", "--message", "hello", "--length", "8", "--seed", "3", "--json").stdout)["content"]
ok(said["message"] == {"role": "assistant", "content": wanted}, f"chat {said}, dllm chat {wanted!r}")
scored = server.json("/v1/chat/completions", {**chat, "logprobs": True})["choices"][0]["logprobs"]["content"]
ok("".join(one["token"] for one in scored) == wanted and all(one["logprob"] <= 0 and bytes(one["bytes"]).decode() == one["token"] for one in scored), f"log probabilities of a chat {scored}")
events = [data for _, data in pieces_of(server.ask("/v1/chat/completions", {**chat, "stream": True})[1]) if data != "[DONE]"]
ok(events[0]["choices"][0]["delta"]["role"] == "assistant" and "".join(data["choices"][0]["delta"].get("content", "") for data in events) == wanted, "a stream of a chat")
filled = server.json("/v1/infill", {"input_prefix": "the ", "input_suffix": " sat", "max_tokens": 3, "seed": 1})["choices"][0]
ok(filled["text"].startswith("the ") and filled["text"].endswith(" sat") and len(filled["holes"]) == 1, f"infill {filled}")
between = {"prompt": "the ", "suffix": " sat", "max_tokens": 3, "seed": 1}
answered = server.json("/v1/completions", {**between, "logprobs": 0})["choices"][0]
ok(answered["text"] == filled["holes"][0] and answered["logprobs"]["text_offset"][0] == len("the "), f"the answer is what is before the suffix: {answered}")
ok("".join(answered["logprobs"]["tokens"]) == answered["text"], f"and so are its log probabilities: {answered}")
ok(server.json("/v1/completions", {**between, "echo": True})["choices"][0]["text"] == "the " + filled["holes"][0], "an echo with a suffix")
pieces = [data for name, data in pieces_of(server.ask("/v1/completions", {**between, "stream": True})[1]) if name is None and data != "[DONE]"]
ok("".join(data["choices"][0]["text"] for data in pieces) == filled["holes"][0], f"a stream with a suffix: {pieces}")
for body in ({**between, "prompt": "a <mask:2>"}, {**between, "suffix": "<mask>"}):
    status, text, _ = server.ask("/v1/completions", body)
    ok(status == 400 and "place to fill" in text, f"{body}: {status} {text}")
many = server.json("/v1/completions", {"prompt": ["a", "b"], "n": 2, "max_tokens": 4, "temperature": 1.0, "seed": 10})["choices"]
ok([choice["index"] for choice in many] == [0, 1, 2, 3] and [choice["dllm"]["seed"] for choice in many] == [10, 11, 10, 11], "two prompts, two texts each")
shaped = server.json("/v1/chat/completions", {**chat, "max_tokens": 32, "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "array", "items": {"type": "integer"}, "maxItems": 2}}}})["choices"][0]
ok(isinstance(json.loads(shaped["message"]["content"]), list) and shaped["finish_reason"] == "stop", f"a schema: {shaped}")
# ---- likely tokens and biases ----
one = server.json("/v1/completions", {"prompt": "the", "max_tokens": 8, "seed": 3, "temperature": 0, "logprobs": 4})["choices"][0]
numbers = one["logprobs"]
for token, logprob, top in zip(numbers["tokens"], numbers["token_logprobs"], numbers["top_logprobs"]):
    best = max(top, key=top.get)
    ok(1 <= len(top) <= 4 and best == token and abs(top[best] - logprob) < 1e-9, f"the likeliest of {top} is the written token {token!r}")
    ok(sum(math.exp(value) for value in top.values()) < 1 + 1e-5, f"probabilities {top}")
plain = server.json("/v1/completions", {"prompt": "the", "max_tokens": 8, "seed": 3, "temperature": 0, "logprobs": 0})["choices"][0]
ok(plain["text"] == one["text"] and plain["logprobs"]["token_logprobs"] == numbers["token_logprobs"] and plain["logprobs"]["top_logprobs"] is None, "they change no text")
talk = {**chat, "max_tokens": 6, "seed": 3, "logprobs": True}
content = server.json("/v1/chat/completions", {**talk, "top_logprobs": 2})["choices"][0]["logprobs"]["content"]
ok(all(len(part["top_logprobs"]) <= 2 and {"token", "logprob", "bytes"} <= set(part["top_logprobs"][0]) for part in content), f"likely tokens of a chat {content}")
status, text, _ = server.ask("/v1/chat/completions", {**chat, "top_logprobs": 2})
ok(status == 400 and "without logprobs" in text, f"top_logprobs alone: {status} {text}")
first = numbers["tokens"][0]
biased = lambda count, value: server.json("/v1/completions", {"prompt": "the", "max_tokens": count, "seed": 3, "temperature": 1.0, "logit_bias": {"70": value}})["choices"][0]["text"]
token = biased(1, 100)
ok(token and biased(8, 100) == 8 * token, f"a bias of 100: {token!r}, {biased(8, 100)!r}")
ok(token not in biased(24, -60), f"a bias of -60: {biased(24, -60)!r} has no {token!r}")
objects = [json.loads(server.json("/v1/chat/completions", {**chat, "max_tokens": 32, "temperature": 2.0, "seed": seed,
                                                            "response_format": {"type": "json_object"}})["choices"][0]["message"]["content"]) for seed in range(20)]
ok(all(isinstance(one, dict) for one in objects) and sum(one != {} for one in objects) >= 10, f"any object: {objects}")
ok([one["id"] for one in server.json("/v1/models")["data"]] == ["m"] and server.json("/health") == {"status": "ok"}, "models and health")

# ---- calls of functions ----
tools = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}}},
         {"type": "function", "function": {"name": "stop"}}]
asks = {"messages": [{"role": "user", "content": "hello"}], "tools": tools, "max_tokens": 60, "seed": 2, "temperature": 1.0}
for choice in ("required", {"type": "function", "function": {"name": "add"}}):
    said = server.json("/v1/chat/completions", {**asks, "tool_choice": choice})["choices"][0]
    call = said["message"]["tool_calls"][0]
    arguments = json.loads(call["function"]["arguments"])
    ok(said["finish_reason"] == "tool_calls" and said["message"]["content"] is None and call["type"] == "function" and call["id"], f"a call: {said}")
    ok(isinstance(arguments.get("x"), int) if call["function"]["name"] == "add" else choice == "required" and arguments == {}, f"a call: {said}")
    events = [data for _, data in pieces_of(server.ask("/v1/chat/completions", {**asks, "tool_choice": choice, "stream": True})[1]) if data != "[DONE]"]
    streamed = [one for data in events for one in data["choices"][0]["delta"].get("tool_calls", [])]
    ok([one["function"] for one in streamed] == [call["function"]] and streamed[0]["index"] == 0 and events[-1]["choices"][0]["finish_reason"] == "tool_calls", f"a stream of a call: {events}")
for pattern, content, names in (('so <tool_call>\n\\{"name": "add", "arguments": \\{"x": [1-9]\\}\\}\n</tool_call>', "so", ["add"]), ('<tool_call>\\{"name": "add"', '<tool_call>{"name": "add"', []),
                                ('\\{"name": "stop", "parameters": \\{\\}\\}', None, ["stop"]), ('\\{"name": "go", "parameters": \\{\\}\\}', '{"name": "go", "parameters": {}}', []), ("no", "no", [])):
    said = server.json("/v1/chat/completions", {**asks, "max_tokens": 100, "dllm": {"regex": pattern}})["choices"][0]
    ok([call["function"]["name"] for call in said["message"].get("tool_calls", [])] == names and said["message"]["content"] == content, f"{pattern}: {said}")
history = [{"role": "user", "content": "a"}, {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "add", "arguments": "{\"x\": 1}"}}]},
           {"role": "tool", "tool_call_id": "1", "content": "2"}]
ok(server.ask("/v1/chat/completions", {**asks, "messages": history, "tool_choice": "none"})[0] == 200, "an earlier call")
for deep in ("[" * 1000000, '{"a":' + "[" * 100000 + "]" * 100000 + "}"):
    history[1]["tool_calls"][0]["function"]["arguments"] = deep
    ok(server.ask("/v1/chat/completions", {**asks, "messages": history, "tool_choice": "none", "max_tokens": 1})[0] in (200, 400), "arguments of many levels")
deep = {**asks, "max_tokens": 240, "dllm": {"regex": '<tool_call>\\{"name": "add", "arguments": \\{"x": \\[{80}\\]{80}\\}\\}</tool_call>'}}
said = server.json("/v1/chat/completions", deep)["choices"][0]
ok("tool_calls" not in said["message"] and said["message"]["content"].startswith("<tool_call>"), f"a call of many levels: {said}")
for wrong in ({"tools": [{"type": "function"}]}, {"tools": tools, "tool_choice": "must"}, {"tools": tools, "tool_choice": {"type": "function", "function": {"name": "sub"}}}, {"tools": None, "tool_choice": "required"}):
    status, text, _ = server.ask("/v1/chat/completions", {**asks, **wrong})
    ok(status == 400 and "tool" in text, f"{wrong}: {status} {text}")

# ---- refusals ----
for body, part in [("{", "not JSON"), ("[]", "not a JSON object"), ("[" * 100000, "levels"), ({"prompt": "a", "promt": 1}, "promt"), ({"prompt": [1, 2]}, "prompt"),
                   ({"prompt": "a", "max_tokens": 100000}, "100"), ({"prompt": "a", "max_tokens": -1}, "max_tokens"), ({"prompt": "a", "n": 1000}, "n is 1000"),
                   ({"prompt": "a", "temperature": "hot"}, "temperature"), ({"prompt": "a", "temperature": -1}, "temperature"), ({"prompt": "a", "logit_bias": {"5": 101}}, "-100 to 100"),
                   ({"prompt": "a", "dllm": {"polcy": "x"}}, "polcy"), ({"prompt": "a", "dllm": {"policy": "x"}}, "x"), ({"prompt": "a", "stop": [""]}, "stop"),
                   ({"prompt": "a", "best_of": 3}, "best_of"), ({"prompt": "a", "logprobs": 21}, "logprobs is 21"), ({"prompt": "a", "logprobs": 0, "echo": True}, "echo"), ({"prompt": "a", "response_format": {"type": "xml"}}, "json_object"), ({"prompt": "a", "response_format": {"type": 5}}, "response_format"),
                   ({"prompt": "a", "dllm": {"grammar": "root ::= root"}}, "begins with itself"), ({"prompt": "a", "dllm": {"regex": "("}}, "byte 1"),
                   ({"prompt": "a", "dllm": {"template": "/etc/passwd"}}, "template"), ({"prompt": "a", "seed": 1.5}, "seed"), ({"prompt": "a", "dllm": {"length": 16777216}}, "positions"), ({"prompt": "a", "stream": "yes"}, "stream"),
                   ({"prompt": "a", "store": True}, "store"), ({"prompt": "a", "reasoning_effort": "high"}, "reasoning_effort"), ({"prompt": "a", "verbosity": "low"}, "verbosity"),
                   (b'{"prompt": "\xff"}', "not JSON")]:
    for stream in (False, True):
        sent = {**body, "stream": True} if stream and isinstance(body, dict) and "stream" not in body else body
        status, text, _ = server.ask("/v1/completions", sent)
        error = json.loads(text)["error"]
        ok(status == 400 and part in error["message"] and error["type"] == "invalid_request_error", f"{str(sent)[:60]}: {status} {error['message'][:120]}")
ok(server.ask("/v1/chat/completions", {"messages": []})[0] == 400, "no messages")
ok(server.ask("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "tools": "f"})[0] == 400, "tools that are no list")
for around in ({"input_prefix": "a <mask:3>", "input_suffix": "b"}, {"prefix": "a", "suffix": "<mask>"}):
    status, text, _ = server.ask("/v1/infill", {**around, "max_tokens": 2})
    ok(status == 400 and "<mask" in text, f"a hole next to the place to fill: {status} {text}")
ok(server.ask("/v1/completions", {"model": "other", "prompt": "a"})[0] == 404 and server.ask("/nothing")[0] == 404, "other models and paths")
ok(server.ask("/v1/completions")[0] == 405 and server.ask("/v1/models", {})[0] == 405, "methods")
ok(server.ask("/health", headers={"Host": "evil.example"})[0] == 403, "another host")
ok(server.ask("/v1/models", headers={"Origin": "https://evil.example"})[0] == 403, "another origin")
with socket.create_connection(("127.0.0.1", server.port), timeout=10) as client:
    client.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: {9 << 20}\r\n\r\n".encode())
    ok(b" 413 " in client.recv(4096), "a large body")
for junk in (b"\0" * 64, b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 5000 + b"\r\n", b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -5\r\n\r\n", b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"):
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as client:
        try:
            client.sendall(junk)
            client.shutdown(socket.SHUT_WR)
            client.recv(4096)
        except OSError:
            pass
ok(server.json("/health") == {"status": "ok"}, "after garbage")

# ---- clients that leave ----
LONG = {"prompt": "a", "max_tokens": 900, "temperature": 1.0, "dllm": {"steps": 900, "stop_ids": ["299"]}}
before = server.metric('dllm_requests_total{end="cancelled"}')
clients = [server.open("/v1/completions", {**LONG, "stream": stream}) for stream in (False, True, True)]
wait_for(lambda: server.metric('dllm_requests{phase="decoding"}') == 3, "three long requests are decoded")
clients[2].recv(100)
for client in clients:
    client.close()
wait_for(lambda: server.metric('dllm_requests_total{end="cancelled"}') == before + 3, "clients that leave cancel their requests")
wait_for(lambda: server.metric('dllm_requests{phase="decoding"}') == 0, "and their slots are free")

# ---- many clients at once: every text is that of the request alone ----
prompts = [{"prompt": random.choice(["the cat", "a", "who", ""]), "max_tokens": random.randint(1, 24), "seed": random.randint(0, 9), "temperature": random.choice([0.0, 0.7, 1.5]),
            "dllm": {"policy": random.choice(["low_confidence", "random", "entropy_bound"])}} for _ in range(60)]
alone = [server.json("/v1/completions", body)["choices"][0]["text"] for body in prompts]
wrong = []


def client(first):
    for i in list(range(first, len(prompts), 6)) * 2:
        if random.random() < 0.1:  # leaves without reading
            server.open("/v1/completions", {**prompts[i], "stream": True}).close()
        text = server.json("/v1/completions", prompts[i])["choices"][0]["text"]
        if text != alone[i]:
            wrong.append((prompts[i], text, alone[i]))


threads = [threading.Thread(target=client, args=(first,)) for first in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
ok(not wrong, f"texts among other requests: {wrong[:2]}")

# ---- the end: an open stream is answered first ----
stream = server.open("/v1/completions", {**LONG, "max_tokens": 300, "dllm": {"steps": 300, "stop_ids": ["299"]}, "stream": True})
stream.recv(1000)
server.process.send_signal(signal.SIGTERM)
time.sleep(0.1)
status, text, _ = server.ask("/health")
ok(status == 503 and "ending" in text, f"SIGTERM: /health of a new connection: {status} {text}")
status, text, _ = server.ask("/v1/completions", {"prompt": "the", "max_tokens": 4})
ok(status == 503, f"SIGTERM: a new request: {status} {text}")
whole = b""
while part := stream.recv(1 << 16):
    whole += part
ok(b"[DONE]" in whole, "SIGTERM: an open stream comes to its end")
server.process.communicate(timeout=60)
ok(server.process.returncode == 0, f"SIGTERM: exit {server.process.returncode}")

# ---- the end, for requests that take longer than --drain: each client gets an error, and none has half a text ----
server = Server("--drain", "0.2")
stream, whole_one = server.open("/v1/completions", {**LONG, "stream": True}), server.open("/v1/completions", LONG)
stream.recv(1000)
server.process.send_signal(signal.SIGTERM)
said = [b"", b""]
for i, client in enumerate((stream, whole_one)):
    while part := client.recv(1 << 16):
        said[i] += part
last = pieces_of(said[0].split(b"\r\n")[-4].decode())[-1][1] if said[0].endswith(b"0\r\n\r\n") else said[0][-200:]
ok("ended before" in str(last.get("error", last)), f"--drain is over: a stream ends with an error: {last}")
ok(b" 503 " in said[1] and b"Retry-After" in said[1], f"--drain is over: an answer is an error: {said[1][:200]}")
server.process.communicate(timeout=60)
ok(server.process.returncode == 0, f"--drain is over: exit {server.process.returncode}")

# ---- a pattern that takes long: the client gets a status, a client that leaves ends it, and the end does not wait for it ----
# Without its limits, the automaton of such a pattern would have millions of states.
LONG_PATTERNS = ["(a{1,300}){1,300}", "(a{1,999}){1,999}", "(.{1,90}){1,90}", "((a|b){1,200}c?){1,200}"]
server = Server("--timeout", "20", "--drain", "1")
for pattern in LONG_PATTERNS:
    begin = time.monotonic()
    status, text, _ = server.ask("/v1/completions", {"prompt": "the", "max_tokens": 20, "dllm": {"regex": pattern}})
    ok(status in (200, 400, 504) and time.monotonic() - begin < 40, f"{pattern}: {status} {text[:200]} after {time.monotonic() - begin:.1f} s")
status, text, _ = server.ask("/v1/completions", {"prompt": "the", "max_tokens": 20, "dllm": {"json_schema": "no.json"}})
ok(status == 400 and "not valid JSON" in text, f"a schema that is no JSON: {status} {text}")
gone = [server.open("/v1/completions", {"prompt": "the", "max_tokens": 20, "dllm": {"regex": pattern}}) for pattern in 3 * LONG_PATTERNS]
for client in gone:
    client.close()
begin = time.monotonic()
ok(server.ask("/v1/completions", {"prompt": "the", "max_tokens": 4})[0] == 200, "a request after clients that left")
ok(time.monotonic() - begin < 20, f"it waited {time.monotonic() - begin:.1f} s for patterns of clients that left")
slow = [server.open("/v1/completions", {"prompt": "the", "max_tokens": 20, "dllm": {"regex": pattern}}) for pattern in LONG_PATTERNS]
server.process.send_signal(signal.SIGTERM)
server.process.communicate(timeout=20)
ok(server.process.returncode == 0, f"the end while patterns are read: exit {server.process.returncode}")

# ---- settings of the server hold for requests that do not set them; mistakes in them end the program ----
server = Server("--settings", json.dumps({"steps": 3, "length": 9, "seed": 4, "temperature": 0.7}))
own = server.json("/v1/completions", {"prompt": "the"})["choices"][0]
same = {"prompt": "the", "max_tokens": 9, "seed": 4, "temperature": 0.7, "dllm": {"steps": 3}}
ok(own["text"] == server.json("/v1/completions", same)["choices"][0]["text"] and own["dllm"]["seed"] == 4, f"--settings: {own}")
ok(server.json("/v1/completions", {"prompt": "the", "seed": 5, "max_tokens": 2})["choices"][0]["dllm"]["seed"] == 5, "--settings: a request has its own")
server.process.send_signal(signal.SIGTERM)
server.process.communicate(timeout=20)
for words, said in ((["--settings", '{"stepz": 3}'], 'stepz'), (["--settings", "[1]"], "JSON object"), (["--settings", '{"prompt": "a"}'], "prompt"),
                    (["--settings", '{"regex": "("}'], "byte 1"), (["--template", "chtml"], "chatml")):
    ended = subprocess.run([DLLM, "serve", "m", "--port", "0", *words], cwd=SCRATCH, capture_output=True, text=True, timeout=60)
    ok(ended.returncode in (1, 2) and said in ended.stderr, f"{words}: exit {ended.returncode}, {ended.stderr[:200]}")
sys.exit(program.failures > 0)
