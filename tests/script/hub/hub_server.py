"""A hub in this process, with a second server on another port for large files. Hooks of a test change single answers."""
import hashlib
import http.server
import json
import os
import shutil
import subprocess
import threading
import urllib.parse

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def git_hash(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def run_on_small_disk(words, folder, environment):
    """Runs a program while `folder` is a file system of 200 KB. Returns None where no file system can be mounted."""
    folder.mkdir(exist_ok=True)
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        return None
    script = f'mount -t tmpfs -o size=200k none {folder} && exec "$@"'
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", *map(str, words)], env=environment, text=True, capture_output=True, timeout=60)
    return None if "mount:" in done.stderr else done


class Repo:
    def __init__(self, files, large=(), commit=COMMIT, refs=("main",)):
        self.files, self.large, self.commit, self.refs = dict(files), set(large), commit, set(refs)

    def etag(self, path):
        content = self.files[path]
        return hashlib.sha256(content).hexdigest() if path in self.large else git_hash(content)

    def listing(self):
        rows = []
        for path, content in self.files.items():
            row = {"rfilename": path, "size": len(content), "blobId": git_hash(content)}
            if path in self.large:
                row["lfs"] = {"sha256": self.etag(path), "size": len(content), "pointerSize": 130}
            rows.append(row)
        return {"id": "x", "sha": self.commit, "siblings": rows}

    def tree(self):
        rows = []
        for path, content in self.files.items():
            row = {"type": "file", "path": path, "size": len(content), "oid": git_hash(content)}
            if path in self.large:
                row["lfs"] = {"oid": self.etag(path), "size": len(content), "pointerSize": 130}
            rows.append(row)
        return rows


class Answer:
    """What a hook sends in place of the usual answer."""

    def __init__(self, status=200, body=b"", headers=None, length=None, cut=None, pause=0, drop=False):
        self.status, self.body, self.headers = status, body, dict(headers or {})
        self.length = length  # announced, where it is not the body's
        self.cut = cut  # bytes after which the connection ends
        self.pause = pause  # seconds between two pieces of 1 KiB
        self.drop = drop  # the connection ends without an answer


class Seen:
    def __init__(self, server, handler):
        self.server, self.method, self.path = server, handler.command, handler.path
        self.range = handler.headers.get("Range", "")
        self.token = handler.headers.get("Authorization", "")
        self.status, self.sent = 0, 0  # of the answer: its status, and the bytes of its body

    def __repr__(self):
        return f"{self.server} {self.method} {self.path} {self.range} {'with token' if self.token else ''}".strip()


class Hub:
    """repos: {"org/name": Repo}; data sets have the key "datasets/org/name". hook(seen, usual) returns an Answer or None."""

    def __init__(self):
        self.repos, self.hook, self.seen, self.lock = {}, None, [], threading.Lock()
        self.servers = {name: self._start(name) for name in ("hub", "store")}
        self.endpoint = self.url("hub")

    def url(self, name):
        return f"http://127.0.0.1:{self.servers[name].server_port}"

    def clear(self):
        self.repos, self.hook, self.seen = {}, None, []

    def count(self, method, part):
        return sum(seen.method == method and part in seen.path for seen in self.seen)

    def environment(self, folder, cache, **more):
        """The environment of a program that asks this hub; folder: that of the test, which has the cache."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("HF_") and key != "TRANSFORMERS_OFFLINE"}
        return {**kept, "HF_ENDPOINT": self.endpoint, "HF_HUB_CACHE": str(folder / cache), "HF_HOME": str(folder / "home"),
                "no_proxy": "127.0.0.1,localhost", **more}

    def run_parts(self, parts, program):
        """Runs the parts of a test, closes this hub, and returns the exit status."""
        for part in parts:
            print(f"# {part.__name__}", flush=True)
            part()
        self.close()
        return 1 if program.failures else 0

    def close(self):
        for server in self.servers.values():
            server.shutdown()
            server.server_close()

    def _start(self, name):
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *words):
                pass

            def do_GET(self):
                seen = Seen(name, self)
                with hub.lock:
                    hub.seen.append(seen)
                usual = hub._usual(seen)
                answer = (hub.hook(seen, usual) if hub.hook else None) or usual
                seen.status, seen.sent = answer.status, len(answer.body[:answer.cut]) if self.command == "GET" else 0
                try:
                    self._send(answer)
                except OSError:
                    self.close_connection = True

            do_HEAD = do_GET

            def _send(self, answer):
                if answer.drop:
                    self.close_connection = True
                    self.connection.shutdown(2)
                    return
                self.send_response_only(answer.status)
                for key, value in answer.headers.items():
                    self.send_header(key, value)
                if "Content-Length" not in answer.headers:
                    self.send_header("Content-Length", str(len(answer.body) if answer.length is None else answer.length))
                self.end_headers()
                if self.command == "HEAD":
                    return
                body = answer.body if answer.cut is None else answer.body[:answer.cut]
                if answer.pause:
                    for begin in range(0, len(body), 1024):
                        self.wfile.write(body[begin:begin + 1024])
                        self.wfile.flush()
                        threading.Event().wait(answer.pause)
                else:
                    self.wfile.write(body)
                if answer.cut is not None or (answer.length or 0) > len(answer.body):
                    self.close_connection = True

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, *words):
                pass

        server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return server

    @staticmethod
    def content(body, seen, headers):
        """The whole content, or the range that a request asks for."""
        if not seen.range:
            return Answer(200, body, {**headers, "Accept-Ranges": "bytes"})
        first, _, last = seen.range.removeprefix("bytes=").partition("-")
        first, last = int(first), min(int(last or len(body)), len(body) - 1)
        if first >= len(body):
            return Answer(416, b"", {"Content-Range": f"bytes */{len(body)}"})
        return Answer(206, body[first:last + 1], {**headers, "Content-Range": f"bytes {first}-{last}/{len(body)}"})

    def _usual(self, seen):
        path = urllib.parse.unquote(urllib.parse.urlsplit(seen.path).path)
        if seen.server == "store":
            for repo in self.repos.values():
                for name in repo.large:
                    if path == "/" + repo.etag(name):
                        return self.content(repo.files[name], seen, {"ETag": f'"{repo.etag(name)[:32]}"'})
            return Answer(404)
        for key, repo in self.repos.items():
            api = f"/api/{key if key.startswith('datasets/') else 'models/' + key}/revision/"
            if path.startswith(api):
                if path[len(api):] not in repo.refs | {repo.commit}:
                    return Answer(404, headers={"X-Error-Code": "RevisionNotFound"})
                return Answer(200, json.dumps(repo.listing()).encode(), {"Content-Type": "application/json"})
            tree = api.replace("/revision/", "/tree/")
            if path.startswith(tree):  # huggingface_hub asks for it
                return Answer(200, json.dumps(repo.tree()).encode(), {"Content-Type": "application/json"})
            base = f"/{key}/resolve/"
            if path.startswith(base):
                return self._file(repo, path[len(base):], seen)
        return Answer(401, headers={"X-Error-Code": "RepoNotFound", "X-Error-Message": "Invalid username or password."})

    def _file(self, repo, rest, seen):
        revision, _, name = rest.partition("/")
        facts = {"X-Repo-Commit": repo.commit}
        if revision not in repo.refs | {repo.commit}:
            return Answer(404, headers={"X-Error-Code": "RevisionNotFound"})
        if name not in repo.files:
            return Answer(404, headers={**facts, "X-Error-Code": "EntryNotFound"})
        tag, body = repo.etag(name), repo.files[name]
        if name not in repo.large:
            return self.content(body, seen, {**facts, "ETag": f'"{tag}"'})
        return Answer(302, b"", {**facts, "X-Linked-Etag": f'"{tag}"', "X-Linked-Size": str(len(body)),
                                 "Location": f"{self.url('store')}/{tag}"})
