"""A server that people leave running: clients of every kind ask it for minutes, and it answers each as if it were alone.

serve_soak.py DLLM SCRATCH [--minutes M] [--clients N] [--port P] [--report FILE]

Each client draws what it does: a whole answer, a stream, a constrained answer, a chat, a refused request, garbage, a stream that it reads slowly, one
that it leaves, one whose process is killed. Each answer is compared with the answer that the same request had alone, before the other
clients came. At the end the server has no open request, has ended no request with an error of its own, and its memory is flat: the median of
the last third is at most 10 % and 16 MiB above that of the second third.
"""
import argparse
import collections
import http.client
import json
import multiprocessing
import os
import pathlib
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time

from cli_options import LINES, Program

parser = argparse.ArgumentParser()
parser.add_argument("program")
parser.add_argument("scratch", type=pathlib.Path)
parser.add_argument("--minutes", type=float, default=2)
parser.add_argument("--clients", type=int, default=8)
parser.add_argument("--report", type=pathlib.Path)
given = parser.parse_args()
program = Program(given.program, given.scratch)
ok = program.ok

GRAMMAR = "root ::= sum\nsum ::= term ([-+] term)*\nterm ::= [0-9]{1,3} | \"(\" sum \")\"\n"
SCHEMA = {"type": "object", "required": ["name", "age"], "properties": {
    "name": {"type": "string", "maxLength": 8}, "age": {"type": ["integer", "null"], "minimum": 0, "maximum": 120, "multipleOf": 2}}}


def requests():
    """Paths and bodies of requests whose answers are known."""
    made = []
    for seed in range(4):
        for prompt in ("the cat", "a dog sat on", "x"):
            made.append(("/v1/completions", {"prompt": prompt, "max_tokens": 8 + 6 * seed, "seed": seed, "temperature": 0.9}))
        made.append(("/v1/completions", {"prompt": "the", "max_tokens": 24, "seed": seed, "dllm": {"policy": "random", "steps": 6}}))
        made.append(("/v1/completions", {"prompt": "the", "suffix": " mat", "max_tokens": 8, "seed": seed}))
        made.append(("/v1/completions", {"prompt": "say", "max_tokens": 40, "seed": seed, "dllm": {"regex": "[a-z ]{3,30}[.]"}}))
        made.append(("/v1/completions", {"prompt": "say", "max_tokens": 24, "seed": seed, "dllm": {"grammar": GRAMMAR}}))
        made.append(("/v1/chat/completions", {"messages": [{"role": "user", "content": "who?"}], "max_tokens": 64, "seed": seed,
                                              "response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}}))
        made.append(("/v1/chat/completions", {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 20, "seed": seed}))
    return made


GARBAGE = [b"", b"\0" * 300, b"GET\r\n\r\n", b"POST /v1/completions HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n{", b"PUT / HTTP/9.9\r\n\r\n",
           b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n{\"a\"", b"\x16\x03\x01\x02\x00" + bytes(range(256)),
           b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"]
REFUSED = [b"{", b"[]", b'{"prompt": 5}', b'{"prompt": "a", "max_tokens": -1}', b'{"prompt": "a", "nothing": 1}', b"[" * 5000,
           b'{"prompt": "a", "dllm": {"regex": "("}}', b'{"prompt": "a", "dllm": {"grammar": "root ::= root"}}',
           b'{"prompt": "a", "response_format": {"type": 5}}', b'{"prompt": "a", "dllm": {"json_schema": "{\\"type\\": \\"x\\"}"}}',
           '{"prompt": "a", "stop": "\ud800"}'.encode("utf-8", "surrogatepass"), b'{"prompt": "a", "max_tokens": 90000}']


class Server:
    def __init__(self):
        self.log = open(given.scratch / "log", "w")
        self.process = subprocess.Popen([given.program, "serve", "m", "--port", "0", "--template", "alpaca", "--waiting", "64"], cwd=given.scratch,
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)
        url = self.process.stdout.readline().strip()
        if not url:
            raise SystemExit(f"no server: {(given.scratch / 'log').read_text()}")
        self.port = int(url.split(":")[-1].split("/")[0])

    def memory(self):
        """MiB of the process that are not files: RssAnon."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) / 1024
        return 0

    def threads_and_files(self):
        here = pathlib.Path(f"/proc/{self.process.pid}")
        return len(list((here / "task").iterdir())), len(list((here / "fd").iterdir()))


def ask(port, path, body):
    """(status, text) of a request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request("POST", path, body if isinstance(body, bytes) else json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def written(path, answer):
    choice = json.loads(answer)["choices"][0]
    return choice["message"]["content"] if "chat" in path else choice["text"]


def opened(port, path, body, small=False):
    data = json.dumps(body).encode()
    client = socket.socket()
    if small:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    client.settimeout(300)
    client.connect(("127.0.0.1", port))
    client.sendall(f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode() + data)
    return client


def streamed(port, path, body, pause=0.0):
    """The text of a stream; pause: seconds between two reads of a few bytes."""
    client = opened(port, path, {**body, "stream": True}, small=pause > 0)
    read = b""
    while piece := client.recv(512 if pause else 65536):
        read += piece
        time.sleep(pause)
    client.close()
    if not read.startswith(b"HTTP/1.1 200 "):
        raise AssertionError(read[:300])
    text = ""
    for line in read.decode().split("\n"):
        line = line.strip()
        if line.startswith("data: {"):
            data = json.loads(line[6:])
            if "error" in data:
                raise AssertionError(line)
            choice = data["choices"][0] if data.get("choices") else {}
            text += (choice.get("delta", {}).get("content") or "") if "chat" in path else choice.get("text", "")
    return text


def leave(port, path, body):
    """A process that asks for a long stream and is killed, its socket open."""
    client = opened(port, path, {**body, "stream": True})
    client.recv(200)
    os.kill(os.getpid(), signal.SIGKILL)


class Client(threading.Thread):
    def __init__(self, number, server, known, until):
        super().__init__()
        self.random, self.server, self.known, self.until = random.Random(number), server, known, until
        self.counts, self.failures = collections.Counter(), []

    def run(self):
        kinds = ["whole"] * 6 + ["stream"] * 4 + ["slow", "left", "left", "killed", "garbage", "refused", "refused"]
        while time.monotonic() < self.until and self.server.process.poll() is None:
            kind = self.random.choice(kinds)
            try:
                getattr(self, kind)()
                self.counts[kind] += 1
            except (OSError, http.client.HTTPException, ValueError, AssertionError) as error:
                self.failures.append(f"{kind}: {type(error).__name__} {error}")

    def known_one(self):
        return self.random.choice(self.known)

    def compare(self, what, body, text, wanted):
        if text != wanted:
            self.failures.append(f"{what} {body}: {text!r}, alone {wanted!r}")

    def whole(self):
        path, body, wanted = self.known_one()
        status, text = ask(self.server.port, path, body)
        if status != 200:
            self.failures.append(f"{status} {text} {body}")
        else:
            self.compare("whole", body, written(path, text), wanted)

    def stream(self):
        path, body, wanted = self.known_one()
        self.compare("stream", body, streamed(self.server.port, path, body), wanted)

    def slow(self):
        path, body, wanted = self.known_one()
        body_of = {**body, "dllm": {**body.get("dllm", {}), "canvas": True}}
        self.compare("slow", body, streamed(self.server.port, path, body_of, pause=0.02), wanted)

    def left(self):
        path, body, _ = self.known_one()
        client = opened(self.server.port, path, {**body, "max_tokens": 80, "stream": self.random.random() < .5})
        time.sleep(self.random.random() * .2)
        client.close()

    def killed(self):
        path, body, _ = self.known_one()
        process = multiprocessing.get_context("fork").Process(target=leave, args=(self.server.port, path, {**body, "max_tokens": 60}))
        process.start()
        process.join()

    def garbage(self):
        client = socket.create_connection(("127.0.0.1", self.server.port), timeout=30)
        client.sendall(self.random.choice(GARBAGE))
        client.settimeout(.3)
        try:
            client.recv(4096)
        except OSError:
            pass
        client.close()

    def refused(self):
        status, text = ask(self.server.port, "/v1/completions", self.random.choice(REFUSED))
        if not 400 <= status < 500:
            self.failures.append(f"refused: {status} {text}")


def open_requests(port):
    """How many requests wait or are decoded."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("dllm_requests{"))


def main():
    shutil.rmtree(given.scratch, ignore_errors=True)
    given.scratch.mkdir(parents=True)
    (given.scratch / "corpus").write_text("\n".join(LINES) + "\n")
    trained = program.run("train", "--data", "corpus", "--rows", "line", "--length", "128", "--batch", "4", "--eval-every", "0", "--examples", "0",
                          "--layers", "2", "--hidden", "64", "--vocab", "300", "--steps", "30", "--lr", "0.01", "--warmup", "0", "--out", "m")
    ok(trained.returncode == 0, f"a model: {trained.stderr[-300:]}")
    server = Server()
    known = []
    for path, body in requests():
        status, text = ask(server.port, path, body)
        ok(status == 200, f"{body}: {status} {text}")
        if status == 200:
            known.append((path, body, written(path, text)))
    began = time.monotonic()
    until = began + 60 * given.minutes
    clients = [Client(number, server, known, until) for number in range(given.clients)]
    for client in clients:
        client.start()
    samples = []
    while any(client.is_alive() for client in clients):
        if server.process.poll() is not None:
            break
        samples.append((time.monotonic() - began, server.memory(), *server.threads_and_files()))
        time.sleep(min(5.0, 2 * given.minutes))
    for client in clients:
        client.join()
    ok(server.process.poll() is None, f"the server runs: {server.process.poll()}")
    deadline = time.monotonic() + 60
    while open_requests(server.port) > 0 and time.monotonic() < deadline:
        time.sleep(.1)
    ok(open_requests(server.port) == 0, "no request is left")
    for path, body, wanted in known:  # the same answers after all this
        ok(written(path, ask(server.port, path, body)[1]) == wanted, f"{body} after the clients")
    server.process.send_signal(signal.SIGTERM)
    ok(server.process.wait(timeout=120) == 0, "SIGTERM ends the server")
    failures = [failure for client in clients for failure in client.failures]
    for failure in failures[:10]:
        ok(False, failure[:600])
    ok(not failures, f"{len(failures)} failures")
    counts = sum((client.counts for client in clients), collections.Counter())
    third = len(samples) // 3
    middle = statistics.median(row[1] for row in samples[third:2 * third] or samples)
    last = statistics.median(row[1] for row in samples[2 * third:] or samples)
    ok(last <= max(1.1 * middle, middle + 16), f"memory grows: {middle:.0f} MiB, then {last:.0f} MiB")
    files = [row[3] for row in samples]
    said = (f"{given.minutes:g} minutes, {given.clients} clients: {sum(counts.values())} requests, {len(failures)} failures; "
            f"memory {samples[0][1]:.0f} MiB at the start, {middle:.0f} in the second third, {last:.0f} in the last; "
            f"at most {max(files)} open files and {max(row[2] for row in samples)} threads; {dict(sorted(counts.items()))}")
    print(said)
    if given.report:
        given.report.write_text(said + "\n")
    return program.failures > 0


sys.exit(main())
