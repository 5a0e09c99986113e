"""dllm serve: its limits, keys and metrics.   serve_limits.py DLLM SCRATCH"""
import json
import pathlib
import resource
import shutil
import signal
import socket
import sys
import threading
import time

from cli_options import LINES, Program
from prometheus_text import samples_of
from server_process import ServerProcess

DLLM, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2])
program = Program(DLLM, SCRATCH)
ok = program.ok


def Server(*words, before=None):
    return ServerProcess(DLLM, SCRATCH, "m", *words, before=before)


shutil.rmtree(SCRATCH, ignore_errors=True)
SCRATCH.mkdir(parents=True)
(SCRATCH / "corpus").write_text("\n".join(LINES) + "\n")
trained = program.run("train", "--data", "corpus", "--rows", "line", "--length", "48", "--batch", "4", "--eval-every", "0", "--examples", "0",
                      "--layers", "2", "--hidden", "64", "--vocab", "300", "--steps", "30", "--lr", "0.01", "--warmup", "0", "--out", "m")
ok(trained.returncode == 0, f"a model: {trained.stderr[-300:]}")

# ---- metrics: known requests move known numbers, and usage has the tokens that the model saw ----
server = Server()
before = samples_of(server.ask("/metrics")[1])
ok(not any(value for name, value in before.items() if name.startswith(("dllm_requests", "dllm_request_seconds", "dllm_waiting"))), "the server counts no request of its own")
PROMPTS = ["the cat", "a", "who are you", "the dog sat on"]
usages = [server.json("/v1/completions", {"prompt": prompt, "max_tokens": 6, "seed": i})["usage"] for i, prompt in enumerate(PROMPTS)]
for prompt, usage in zip(PROMPTS, usages):
    ids = json.loads(program.run("tokenize", "m", "--text", prompt, "--json").stdout)["ids"]
    ok(usage["prompt_tokens"] == len(ids), f"{prompt!r}: {usage}, tokens {ids}")
ok(server.ask("/v1/completions", {"prompt": 5})[0] == 400 and server.ask("/nothing/at/all")[0] == 404, "refusals")
after = samples_of(server.ask("/metrics")[1])
moved = lambda name: after[name] - before.get(name, 0)
count = len(PROMPTS)
for name, wanted in (('dllm_requests_total{end="completed"}', count), ('dllm_requests_total{end="failed"}', 0), ("dllm_request_seconds_count", count), ("dllm_waiting_seconds_count", count),
                     ("dllm_first_text_seconds_count", count), ("dllm_prompt_tokens_total", sum(one["prompt_tokens"] for one in usages)),
                     ("dllm_completion_tokens_total", sum(one["completion_tokens"] for one in usages)), ('dllm_http_requests_total{path="/v1/completions",status="200"}', count),
                     ('dllm_http_requests_total{path="/v1/completions",status="400"}', 1), ('dllm_http_requests_total{path="other",status="404"}', 1)):
    ok(moved(name) == wanted, f"{name} moved by {moved(name)}, expected {wanted}")
for name in ("dllm_launches_total", "dllm_positions_total", "dllm_nfe_total", "dllm_steps_total", "dllm_step_seconds_total", "dllm_request_seconds_sum"):
    ok(moved(name) > 0, f"{name} did not move: {after.get(name)}")
ok(after["dllm_waiting_seconds_sum"] <= after["dllm_first_text_seconds_sum"] <= after["dllm_request_seconds_sum"], "a text waits, has its first words, and ends")
ok("dllm_reused_positions_total" in after and after["dllm_process_resident_bytes"] > 1e6, "positions that were reused, and memory")
gone = server.open("/v1/completions", {"prompt": "a", "max_tokens": 900, "dllm": {"steps": 900, "stop_ids": ["299"]}})
time.sleep(0.3)
gone.close()
LEFT = 'dllm_http_requests_total{path="/v1/completions",status="499"}'
until = time.time() + 60
while server.metric(LEFT) != 1 and time.time() < until:
    time.sleep(0.02)
ok(server.metric(LEFT) == 1, f"a client that left: {server.metric(LEFT)}")
ok(server.stop() == 0, "the end")

# ---- a client that sends its request slowly gets a status, and one that takes its answer slowly is not ----
server = Server("--receive", "1")
long_one = server.open("/v1/completions", {"prompt": "a", "max_tokens": 900, "stream": True, "dllm": {"steps": 900, "stop_ids": ["299"]}})
for begun in (b"GET /health HTTP/1.1\r\nX: ", f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{{".encode()):
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client:
        client.sendall(begun)
        client.settimeout(0.1)
        begin, said = time.monotonic(), None
        while said is None and time.monotonic() - begin < 20:  # a byte now and then is not enough
            try:
                client.sendall(b"a")
                said = client.recv(4096)
            except TimeoutError:
                pass
            except OSError:
                said = b" 408 "  # the answer was lost with the connection
        ok(said is not None and b" 408 " in said and time.monotonic() - begin > 0.8, f"{begun[:20]}: {said} after {time.monotonic() - begin:.1f} s")
whole = b""
while part := long_one.recv(1 << 16):
    whole += part
    if b"[DONE]" in whole:
        break
ok(b"[DONE]" in whole, "an answer of more than --receive comes to its end")
ok(server.stop() == 0, "the end")

# ---- a client that reads its answer slowly, with requests behind it, loses nothing ----
server = Server("--receive", "5")
body = json.dumps({"model": "A" * 3000000, "prompt": "x"}).encode()  # the answer has the name
with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client:
    client.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    for pause in (0.2, 6, 0.2):  # pipelined requests wait until the client reads the answer
        time.sleep(pause)
        client.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    got = b""
    while got.count(b"HTTP/1.1 200") < 3 and (part := client.recv(1 << 20)):
        got += part
    ok(len(got) > 3000000 and b" 408 " not in got and got.count(b"HTTP/1.1 200") == 3, f"a slow reader with pipelined requests: {len(got)} bytes, {got[-200:]}")
ok(server.stop() == 0, "the end")

# ---- a stream that has nothing to send for a long time goes on ----
server = Server()
stream = server.open("/v1/completions", {"prompt": "a", "max_tokens": 900, "stream": True, "dllm": {"steps": 900, "stop_ids": ["299"], "canvas": True}})
whole = stream.recv(1000)
server.process.send_signal(signal.SIGSTOP)
time.sleep(32)
server.process.send_signal(signal.SIGCONT)
while b"[DONE]" not in whole and (part := stream.recv(1 << 16)):
    whole += part
ok(b"[DONE]" in whole, f"a pause of 32 s in a stream: {whole[-200:]}")
ok(server.stop() == 0, "the end")

# ---- names of models in labels ----
odd = 'od"d\\x {} ü'
(SCRATCH / "odd.json").write_text(json.dumps({odd: "m", "plain": "m"}))
server = ServerProcess(DLLM, SCRATCH, "--models", "odd.json")
ok(server.json("/v1/completions", {"prompt": "a", "max_tokens": 2, "model": odd})["model"] == odd, "a model of an odd name")
label = 'model="' + odd.replace("\\", "\\\\").replace('"', '\\"') + '"'
samples = samples_of(server.ask("/metrics")[1])
ok(samples[f'dllm_requests_total{{end="completed",{label}}}'] == 1 and samples['dllm_requests_total{end="completed",model="plain"}'] == 0, f"labels {[name for name in samples if 'completed' in name]}")
ok(server.stop() == 0, "the end")
(SCRATCH / "odd.json").write_text(json.dumps({"a\nb": "m"}))
refused = program.run("serve", "--models", "odd.json", "--port", "0")
ok(refused.returncode == 2 and "control character" in refused.stderr, f"a name of two lines: {refused.stderr[-200:]}")

# ---- clients cannot push themselves forward ----
server = Server("--most-priority", "2")
for priority, wanted in ((2, 200), (-5, 200), (3, 400), (1e9, 400), ("high", 400)):
    status, text, _ = server.ask("/v1/completions", {"prompt": "a", "max_tokens": 2, "dllm": {"priority": priority}})
    ok(status == wanted and (status == 200 or "priority" in text), f"priority {priority}: {status} {text[:200]}")
ok(server.stop() == 0, "the end")

# ---- more connections than files: they wait, the log stays short, and the server answers again when they leave ----
server = Server(before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48)))
idle = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(80)]
used = lambda: sum(map(int, pathlib.Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))
before = used()
time.sleep(1)
ok(used() - before < 60, f"no free file: {used() - before} ticks of the processor in a second")
for client in idle:
    client.close()
ok(server.ask("/health")[0] == 200, "the server answers after the connections ended")
server.process.send_signal(signal.SIGTERM)
log = server.process.communicate(timeout=60)[1]
ok(server.process.returncode == 0 and len(log) < 4096, f"the log has {len(log)} bytes: {log[:200]}")

# ---- limits and keys ----
(SCRATCH / "keys").write_text("first\n\t second \r\n\n")
server = Server("--api-key-file", "keys", "--queue.slots", "1", "--queue.waiting", "0", "--timeout", "0.2", "--origins", "https://chat.example", "--hosts", "chat.example,[fd00::1]", "--name", "tiny")
ok(server.ask("/v1/models")[0] == 401 and server.ask("/v1/models", headers={"Authorization": "Bearer wrong"})[0] == 401, "no key, a wrong key")
key = {"Authorization": "Bearer second"}
status, text, headers = server.ask("/v1/models", headers={**key, "Origin": "https://chat.example"})
ok(status == 200 and headers["Access-Control-Allow-Origin"] == "https://chat.example" and json.loads(text)["data"][0]["id"] == "tiny", "a key, and a page that may ask")
ok(server.ask("/v1/completions", method="OPTIONS", headers={"Origin": "https://chat.example"})[0] == 204, "a page asks whether it may ask")
ok(server.ask("/v1/models", headers={"Authorization": "bearer first"})[0] == 200, "the scheme of a key in small letters")
for host, wanted in (("chat.example", 200), ("CHAT.example:443", 200), ("[fd00::1]:80", 200), ("localhost", 200), ("[::1]:9", 200), ("chat.example.evil", 403), ("evil.example", 403), ("[fd00::2]", 403), ("", 403)):
    answer = server.ask("/v1/models", headers={**key, "Host": host})
    ok(answer[0] == wanted, f"Host {host!r}: {answer[:2]}")
ok(server.ask("/v1/models", headers={**key, "Host": "chat.example", "Origin": "http://evil.example"})[0] == 403, "a page of another origin, through the proxy")
one = server.ask("/v1/models/tiny", headers=key)
ok(one[0] == 200 and json.loads(one[1])["id"] == "tiny" and server.ask("/v1/models/other", headers=key)[0] == 404, f"one model: {one[:2]}")
# A client cannot ask for more time than --timeout gives.
full = {"prompt": "a", "max_tokens": 900, "dllm": {"steps": 900, "stop_ids": ["299"], "policy": "random", "timeout": 1000}}
answers = []
askers = [threading.Thread(target=lambda: answers.append(server.ask("/v1/completions", full, key))) for _ in range(4)]
for thread in askers:
    thread.start()
for thread in askers:
    thread.join()
codes = sorted(answer[0] for answer in answers)
ok(set(codes) == {429, 504}, f"one slot, none waits: {codes}")
ok(all(answer[2]["Retry-After"] for answer in answers if answer[0] == 429), "429 says when to try again")
ok(server.stop() == 0, "the end")
for words, part in [(["--port", "99999"], "--port"), (["--host", "300.1.1.1"], "300.1.1.1"), (["--api-key-file", "nothing"], "nothing"), (["--timeout", "-1"], "--timeout")]:
    failed = program.run("serve", "m", *words)
    ok(failed.returncode in (1, 2) and part in failed.stderr, f"serve {words}: {failed.stderr[-200:]}")
sys.exit(program.failures > 0)
