#!/usr/bin/env python3
"""Our server next to llama.cpp's: one token a pass against blocks of a diffusion model, 1 to 16 clients.

    bench/serve/llama_server.py PROGRAM [--shape 1.5b-causal] [--tokens 64] [--requests 2] [--turns 2] [--threads 2] [--write]

Both load the same GGUF file of random weights in q8_0 (bench/peers/make_gguf.py) and answer over loopback. llama.cpp is built by bench/peers/llama.sh. Ours computes in int8, as
ggml does. A diffusion model of blocks of 8 decides 1, 2, 4 or 8 tokens a pass: what a trained one reaches depends on its text. Each turn asks
every side with every number of clients; the order of sides changes. A client sends its requests one after the other. Prints tokens a second, latency p50, p99 and
spread ((p99 - p50) / p50). --write draws docs/serve-llama.svg.
"""
import argparse
import http.client
import json
import math
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from html import escape

ROOT = pathlib.Path(__file__).resolve().parents[2]
LLAMA = ROOT / "build" / "peers" / "llama" / "build" / "bin" / "llama-server"
BLOCK, CLIENTS = 8, (1, 2, 4, 8, 16)


class Server:
    """A server on a free port of this machine."""

    def __init__(self, name, words, port, log):
        self.name, self.port = name, port
        self.process = subprocess.Popen([str(word) for word in words], stdout=log, stderr=log)
        until = time.monotonic() + 300
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"{name} did not start")
            time.sleep(0.1)

    def is_ready(self):
        try:
            return self.ask("GET", "/health")[0] == 200
        except OSError:
            return False

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=900)
        connection.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, text

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=60)


class Side:
    """One way to ask a server. own: the fields of a request that choose it."""

    def __init__(self, title, server, own):
        self.title, self.server, self.own = title, server, own
        self.seconds, self.latencies = {}, {}  # by number of clients: of each turn, of each request

    def turn(self, clients, requests, tokens, first_seed):
        latencies, failures = [], []

        def ask(number):
            for i in range(requests):
                seed = first_seed + number * requests + i
                begin = time.monotonic()
                status, text = self.server.ask("POST", "/v1/completions", {"prompt": f"{seed} " + "ab " * 6, "max_tokens": tokens, "temperature": 1.0, "seed": seed, **self.own})
                latencies.append(time.monotonic() - begin)
                if status != 200 or json.loads(text)["usage"]["completion_tokens"] != tokens:
                    failures.append(text[:400])

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(clients)]
        begin = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise SystemExit(f"{self.title}: {failures[0]}")
        self.seconds.setdefault(clients, []).append(time.monotonic() - begin)
        self.latencies.setdefault(clients, []).extend(latencies)

    def rates(self, requests, tokens):
        return {clients: clients * requests * tokens / statistics.median(turns) for clients, turns in self.seconds.items()}


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def quantile(values, part):
    """The smallest value that this part of the values does not exceed."""
    return sorted(values)[max(0, math.ceil(part * len(values)) - 1)]


def servers(program, model, threads, most, tokens, log):
    """(ours, llama.cpp's). Without llama.cpp the second is ours again: a check of this file alone."""
    def own():
        port = free_port()
        return Server("dllm serve", [program, "serve", model, "--port", port, "--engine.threads", threads, "--engine.arithmetic", "int8", "--slots", most], port, log)

    if not LLAMA.exists():
        print(f"{LLAMA.relative_to(ROOT)} is not there (bench/peers/llama.sh builds it): dllm serve is measured in its place", file=sys.stderr)
        return own(), own()
    port, context = free_port(), most * (tokens + 64)
    words = [LLAMA, "-m", model, "--port", port, "-t", threads, "-tb", threads, "-np", most, "-c", context, "--no-webui"]
    return own(), Server("llama-server", words, port, log)


def sides_of(ours, peer, tokens, vocabulary):
    """suppress: no text ends early."""
    ends = [str(vocabulary - 2)]
    is_llama = peer.name == "llama-server"
    causal = {"dllm": {"policy": "autoregressive", "suppress": ends}}
    sides = [Side("llama.cpp" if is_llama else "causal, second server", peer, {"ignore_eos": True} if is_llama else causal), Side("dllm, causal", ours, causal)]
    for many in (1, 2, 4, 8):
        own = {"policy": "low_confidence", "attention": "block_causal", "cache": "exact", "block_length": BLOCK, "steps": tokens // many, "suppress": ends}
        sides.append(Side(f"dllm, {many} a pass", ours, {"dllm": own}))
    return sides


def table(sides, requests, tokens):
    lines = ["| side | clients | tokens/s | p50 s | p99 s | spread |", "|---|---|---|---|---|---|"]
    for side in sides:
        for clients, rate in side.rates(requests, tokens).items():
            p50, p99 = (quantile(side.latencies[clients], part) for part in (0.5, 0.99))
            lines.append(f"| {side.title} | {clients} | {rate:.1f} | {p50:.2f} | {p99:.2f} | {(p99 - p50) / p50:.2f} |")
    return "\n".join(lines)


COLOURS = ("#6b7280", "#0f766e", "#b45309", "#c2410c", "#1d4ed8", "#7c3aed")
WIDTH, HEIGHT, LEFT, TOP = 420, 320, 60, 56


def panel(title, lines, left):
    """lines: [(name, {clients: value})]; both axes are logarithmic."""
    values = [value for _, points in lines for value in points.values()]
    low, high = math.log(min(values)), math.log(max(values))
    clients = sorted(lines[0][1])
    across, down = WIDTH - LEFT - 130, HEIGHT - TOP - 44

    def place(x, y):
        right = math.log(x / clients[0]) / (math.log(clients[-1] / clients[0]) or 1)
        return left + LEFT + right * across, TOP + (1 - (math.log(y) - low) / (high - low or 1)) * down

    parts = [f'<rect class="bg" x="{left + 4.5}" y="4.5" width="{WIDTH - 9}" height="{HEIGHT - 9}" rx="8"/>', f'<text class="t" x="{left + 14}" y="26">{escape(title)}</text>',
             f'<path class="a" d="M{left + LEFT} {TOP} v{down} h{across}"/>', f'<text class="m" x="{left + LEFT + across / 2}" y="{HEIGHT - 14}">clients</text>']
    parts += [f'<text class="m" x="{place(one, values[0])[0]:.1f}" y="{TOP + down + 16}">{one}</text>' for one in clients]
    parts += [f'<text class="e" x="{left + LEFT - 5}" y="{y:.1f}">{math.exp(edge):.3g}</text>' for edge, y in ((high, TOP + 8), (low, TOP + down))]
    taken = []
    for (name, points), colour in zip(lines, COLOURS):
        path = " ".join("{:.1f},{:.1f}".format(*place(*point)) for point in sorted(points.items()))
        x, y = place(clients[-1], points[clients[-1]])
        while any(abs(y - other) < 13 for other in taken):
            y += 13
        taken.append(y)
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{path}"/><text x="{x + 8:.1f}" y="{y + 4:.1f}" style="fill:{colour}">{escape(name)}</text>')
    return "\n".join(parts)


def picture(sides, requests, tokens, note):
    rates = [(side.title, side.rates(requests, tokens)) for side in sides]
    slow = [(side.title, {clients: quantile(all_, 0.5) for clients, all_ in side.latencies.items()}) for side in sides]
    style = ("text{font:12px ui-sans-serif,system-ui,sans-serif;fill:#6b7280}.t{fill:#1f2937;font-weight:600}.e{text-anchor:end}.m{text-anchor:middle}"
             ".bg{fill:#fff;stroke:#e5e7eb}.a{fill:none;stroke:#9ca3af}@media(prefers-color-scheme:dark){.bg{fill:#111827;stroke:#374151}.t{fill:#e5e7eb}}")
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDTH} {HEIGHT + 24}" width="{2 * WIDTH}" height="{HEIGHT + 24}" style="max-width:100%;height:auto" role="img" '
                      'aria-label="Tokens a second and latency against the number of clients, llama.cpp and dllm">', f"<style>{style}</style>",
                      panel("tokens a second", rates, 0), panel("seconds of a request, p50", slow, WIDTH), f'<text x="14" y="{HEIGHT + 14}">{escape(note)}</text>', "</svg>\n"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--shape", default="1.5b-causal")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--requests", type=int, default=2)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--threads", default=str(os.cpu_count()))
    parser.add_argument("--clients", default=",".join(map(str, CLIENTS)))
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    clients = [int(one) for one in given.clients.split(",")]
    if given.tokens % BLOCK:
        raise SystemExit(f"--tokens is a multiple of {BLOCK}")
    sys.path.insert(0, str(ROOT / "bench" / "peers"))
    import make_gguf
    held = pathlib.Path(tempfile.mkdtemp(prefix="llama_server"))
    try:
        make_gguf.write(str(held / "model.gguf"), "q8_0", make_gguf.SHAPES[given.shape])
        with open(held / "log", "w") as log:
            ours, peer = servers(os.path.abspath(given.program), held / "model.gguf", given.threads, max(clients), given.tokens, log)
            try:
                sides = sides_of(ours, peer, given.tokens, make_gguf.SHAPES[given.shape].vocab)
                for side in sides:  # programs are compiled
                    for many in clients:
                        Side("", side.server, side.own).turn(many, 1, BLOCK, 0)
                for turn in range(given.turns):
                    for many in clients:
                        for side in sides[::-1 if turn % 2 else 1]:
                            print(f"turn {turn}, {many} clients: {side.title}", file=sys.stderr, flush=True)
                            side.turn(many, given.requests, given.tokens, 1000 * turn)
            finally:
                ours.stop()
                peer.stop()
    finally:
        shutil.rmtree(held)
    chip = re.search("model name.*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    note = f"{given.shape} q8_0, {given.tokens} tokens, {given.threads} threads, {chip[1] if chip else ''}, load {os.getloadavg()[2]:.1f}, blocks of {BLOCK}"
    print(note + "\n" + table(sides, given.requests, given.tokens))
    if given.write:
        (ROOT / "docs" / "serve-llama.svg").write_text(picture(sides, given.requests, given.tokens, note))


if __name__ == "__main__":
    main()
