#!/usr/bin/env python3
"""What dllm serve costs over the decoder alone, and what it gains by decoding requests together.

    bench/serve/serve_bench.py PROGRAM [--model MODEL] [--block 4] [--tokens 64] [--turns 5] [--threads N]

Compares `dllm serve` under 1 and 8 clients with a generator of this process that decodes 1 and 8 rows at a time (PYTHONPATH has bindings/python,
DLLM_LIBRARY names the library), in turns. Both decode the same rows. Prints tokens a second by the clock, and processor milliseconds a token, which other programs on the machine
disturb less. Also prints how long after a client left its request is cancelled. Without --model it makes a model of 44 M random parameters that decodes whole rows, which is bound by arithmetic. With --block it makes one of 151 M that decodes cached blocks,
which is bound by memory: all weights are read for a few positions.
"""
import argparse
import http.client
import json
import os
import pathlib
import re
import socket
import statistics
import subprocess
import tempfile
import threading
import time

import dllm

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("program")
parser.add_argument("--model")
parser.add_argument("--block", type=int, default=0)
parser.add_argument("--tokens", type=int, default=64)
parser.add_argument("--rows", type=int, default=16)
parser.add_argument("--turns", type=int, default=5)
parser.add_argument("--threads", default="2")
given = parser.parse_args()
held = tempfile.TemporaryDirectory(prefix="serve_bench")  # removed at the end
work = pathlib.Path(held.name)
program = os.path.abspath(given.program)


def run(*words):
    subprocess.run([program, *words], cwd=work, check=True, capture_output=True)


def processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def made_model():
    (work / "corpus").write_text("".join(f"the cat {i} sat on the mat and the dog {i * 7 % 90} sat on the log\n" for i in range(400)))
    kind = ["--hidden", "1024", "--objective", "bd3lm", "--block-length", str(given.block)] if given.block else ["--hidden", "512"]
    run("train", "--data", "corpus", "--rows", "line", "--length", "128", "--batch", "2", "--steps", "1", "--layers", "12", *kind,
        "--vocab", "400", "--eval-every", "0", "--examples", "0", "--out", "m")
    return "m"


model = os.path.abspath(given.model) if given.model else made_model()
SETTINGS = {"suppress": ["0"], "temperature": 1.0}  # no text ends early
rows = [{"prompt": "the cat sat", "length": given.tokens, "seed": i, **SETTINGS} for i in range(given.rows)]


class Server:
    def __init__(self):
        self.process = subprocess.Popen([program, "serve", model, "--port", "0", "--engine.threads", given.threads], cwd=work,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.port = int(self.process.stdout.readline().split(":")[-1].split("/")[0])

    def turn(self, clients):
        """(seconds, processor seconds) for all rows by this number of clients."""
        left, failures = list(rows), []

        def ask():
            connection = http.client.HTTPConnection("127.0.0.1", self.port)
            while left:
                try:
                    row = left.pop()
                except IndexError:
                    return
                body = {"prompt": row["prompt"], "max_tokens": row["length"], "seed": row["seed"], "temperature": 1.0, "dllm": {"suppress": ["0"]}}
                connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
                answer = json.loads(connection.getresponse().read())
                if answer["usage"]["completion_tokens"] != given.tokens:
                    failures.append(answer)

        threads = [threading.Thread(target=ask) for _ in range(clients)]
        begin, before = time.monotonic(), processor_seconds(self.process.pid)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise SystemExit(f"a text ended early: {failures[0]}")
        return time.monotonic() - begin, processor_seconds(self.process.pid) - before


    def leaving(self):
        """Seconds from the end of a client's connection until its request has no slot, for 20 clients."""
        asker = http.client.HTTPConnection("127.0.0.1", self.port)

        def decoding():
            asker.request("GET", "/metrics")
            return int(re.search(r'dllm_requests\{phase="decoding"\} (\d+)', asker.getresponse().read().decode())[1])

        seconds = []
        for i in range(20):
            body = json.dumps({"prompt": "the cat sat", "max_tokens": given.tokens, "seed": i, "temperature": 1.0, "dllm": {"suppress": ["0"], "steps": given.tokens}}).encode()
            client = socket.create_connection(("127.0.0.1", self.port))
            client.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            while decoding() == 0:
                pass
            client.close()
            begin = time.monotonic()
            while decoding():
                pass
            seconds.append(time.monotonic() - begin)
        return seconds


class Alone:
    """The decoder of this process, by the binding for Python. It stays loaded next to the server, so both take turns on the same machine."""
    def __init__(self):
        engine = dllm.Engine(threads=int(given.threads))
        self.generator = dllm.load(work / model, engine)

    def turn(self, batch):
        """(seconds, processor seconds) for all rows, this many at a time."""
        begin, before = time.monotonic(), sum(os.times()[:2])
        for first in range(0, len(rows), batch):
            numbers = [self.generator.add(**row) for row in rows[first:first + batch]]
            self.generator.run()
            for number in numbers:
                self.generator.remove(number)
        return time.monotonic() - begin, sum(os.times()[:2]) - before


server, generator = Server(), Alone()
for side in (server, generator):  # programs are compiled
    side.turn(8)
    side.turn(1)
figures = {}
for turn in range(given.turns):
    for many in (1, 8):
        sides = [("serve", lambda: server.turn(many)), ("decoder", lambda: generator.turn(many))]
        for name, side in sides if turn % 2 == 0 else reversed(sides):
            figures.setdefault((name, many), []).append(side())
left = server.leaving()
server.process.terminate()
tokens = given.tokens * given.rows
print(f"{tokens} tokens a turn, {given.turns} turns, medians, {given.threads} threads")
print("| requests at a time | side | tokens/s | processor ms a token |\n|---|---|---|---|")
for (name, many), turns in sorted(figures.items(), key=lambda entry: (entry[0][1], entry[0][0])):
    print(f"| {many} | {name} | {tokens / statistics.median(t[0] for t in turns):.0f} | {1e3 * statistics.median(t[1] for t in turns) / tokens:.3f} |")
for side in ("serve", "decoder"):
    gains = [one[0] / eight[0] for one, eight in zip(figures[side, 1], figures[side, 8])]
    print(f"{side}: 8 at a time make {statistics.median(gains):.2f} times the tokens/s of one at a time")
for many in (1, 8):
    ratios = [[s[i] / g[i] for s, g in zip(figures['serve', many], figures['decoder', many])] for i in (0, 1)]
    print(f"{many} at a time: serve / decoder {statistics.median(ratios[0]):.3f} by the clock, {statistics.median(ratios[1]):.3f} by the processor")
print(f"a request is cancelled {1e3 * statistics.median(left):.0f} ms after its client left (median of {len(left)}, at most {1e3 * max(left):.0f} ms)")
