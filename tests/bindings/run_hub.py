"""run_hub.py COMMAND...: runs a program that uses the hub of a language, against a hub of this test.

The hub has the model tester/tiny, and tester/slow, whose weights come so slowly that a pull can be cancelled. The program:

1. pulls tester/tiny with a task; the path has config.json, and the progress has come to its end
2. describes the pull: the name, the three files with their sizes, and nothing is missing
3. lists one repository with one snapshot, the revision main and three files
4. verifies it: one file has a SHA-256, and there is no fault
5. pulls tester/tin: the error is not_found and says that the hub has no model tester/tin
6. pulls with option offline: tester/tiny is the same path, and tester/none is not in the cache
7. pulls with an option "endpoint": the error names it (the address is in the variable HF_ENDPOINT)
8. pulls tester/slow and cancels it: the error is that of the language, and the next call works
9. removes tester/tiny: the bytes are freed, and to remove it again is not_found

Exit status 77: skipped, there is no libcurl.
"""
import ctypes
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "script" / "hub"))
from hub_server import Answer, Hub, Repo

LARGE = "model.safetensors"


def weights(seed):
    return b"".join(hashlib.sha256(b"%s%d" % (seed, i)).digest() for i in range(10_000))  # 320,000 bytes


def make_hub():
    hub = Hub()
    for name in ("tiny", "slow"):
        files = {"config.json": b'{"model_type": "llama"}', "tokenizer.json": b"{}", LARGE: weights(name.encode())}
        hub.repos["tester/" + name] = Repo(files, large=[LARGE])
    slow = hub.repos["tester/slow"].etag(LARGE)

    def pause(seen, usual):
        if seen.method != "GET" or slow not in seen.path:
            return None
        made = Answer(usual.status, usual.body, usual.headers)
        made.pause = 0.1  # seconds between two pieces of 1 KiB: 30 seconds for all
        return made

    hub.hook = pause
    return hub


def environment(hub, cache):
    kept = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    return {**kept, "HF_ENDPOINT": hub.endpoint, "HF_HUB_CACHE": str(cache), "HF_HOME": str(cache / "home"),
            "no_proxy": "127.0.0.1,localhost"}


def has_curl():
    for name in (os.environ.get("DLLM_CURL_LIBRARY"), "libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.so"):
        try:
            if name and ctypes.CDLL(name):
                return True
        except OSError:
            pass
    return False


def main(command):
    if not has_curl():
        print("skipped: this system has no libcurl")
        return 77
    hub = make_hub()
    with tempfile.TemporaryDirectory() as folder:
        cache = pathlib.Path(folder)
        status = subprocess.run(command, env=environment(hub, cache), check=False).returncode
        problems = [f"exit status {status}"] if status else []
        asked = [seen.path for seen in hub.seen]
        problems += [f"{name} was asked for" for name in ("tester/none", "huggingface.co") if any(name in path for path in asked)]
        problems += [f"{name} was not asked for" for name in ("tester/tiny", "tester/tin/", "tester/slow") if not any(name in path for path in asked)]
        if (cache / "models--tester--tiny").exists():
            problems.append("tester/tiny is still in the cache")
        if list((cache / "models--tester--slow").glob("snapshots/*/" + LARGE)):
            problems.append("the weights of tester/slow were loaded whole")
    hub.close()
    print("\n".join(problems) if problems else "the hub works")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
