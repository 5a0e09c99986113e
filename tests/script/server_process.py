"""A server that a test starts, asks and ends."""
import json
import signal
import socket
import subprocess
import urllib.error
import urllib.request


class ServerProcess:
    """A dllm serve that listens on a free port of this machine."""

    def __init__(self, dllm, folder, *words, before=None):
        self.process = subprocess.Popen([dllm, "serve", *words, "--port", "0"], cwd=folder, preexec_fn=before, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            raise SystemExit(f"no server: {self.process.stderr.read()}")
        self.port = int(self.url.split(":")[-1].split("/")[0])

    def ask(self, path, body=None, headers=None, method=None):
        """(status, text, headers) of one request."""
        data = body.encode() if isinstance(body, str) else body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=data, headers=headers or {}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode(), answer.headers
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(), error.headers

    def json(self, path, body=None):
        status, text, _ = self.ask(path, body)
        if status != 200:
            raise AssertionError(f"{path} {body}: {status} {text}")
        return json.loads(text)

    def open(self, path, body):
        """A socket that has sent a request and has not read its answer."""
        data = json.dumps(body).encode()
        client = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        client.sendall(f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
        return client

    def metric(self, name):
        for line in self.ask("/metrics")[1].splitlines():
            if line.startswith(name + " "):
                return float(line.rsplit(" ", 1)[1])
        return None

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=60)
        return self.process.returncode
