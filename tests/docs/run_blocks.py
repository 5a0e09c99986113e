"""Runs the code blocks of a page in order, in an empty folder.
  run_blocks.py ROOT BUILD SCRATCH PAGE [COMMAND...]

  ```sh              runs under sh -eu
  ```c|lua|python F  is written to the file F, for a later sh block to use
  ```lua|python      runs right away
  other tags, indented lines: not run

The blocks find the program on PATH, the headers and the library as if they were installed, and a
small text in corpus.txt. Folders named ROOT in a page are the source tree. README.md is for a reader in
the checkout after ./scripts/quickstart: its blocks find include, scripts and build/release, and nothing is
installed. A sh block with a line that begins with one of the COMMANDs, which this build or machine lacks,
is left out with a line.
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

WHO = ["cat", "dog", "bird", "old man", "moon"]
DID = ["sat by", "looked at", "ran to", "sang under", "told a story of"]
WHAT = ["sea", "tree", "night", "wind", "house", "river", "hill", "stone", "road", "door"]
SECONDS = 60  # of one block


def blocks(text):
    """(line, language, file name or "", code) of every fenced block."""
    found, inside = [], None
    for number, line in enumerate(text.splitlines(), 1):
        fence = re.match(r"```(\w*)\s*(\S*)$", line)
        if inside is None and fence:
            inside = (number, fence.group(1), fence.group(2), [])
        elif inside is not None and line == "```":
            found.append((*inside[:3], "\n".join(inside[3]) + "\n"))
            inside = None
        elif inside is not None:
            inside[3].append(line)
    if inside is not None:
        raise SystemExit(f"the block that begins in line {inside[0]} has no end")
    return found


def environment(root, build):
    def before(name, folder):
        rest = os.environ.get(name)
        return f"{folder}{os.pathsep}{rest}" if rest else str(folder)
    return dict(os.environ, PATH=before("PATH", build / "bin"), CPATH=before("CPATH", root / "include"),
                LIBRARY_PATH=before("LIBRARY_PATH", build / "lib"),
                LD_LIBRARY_PATH=before("LD_LIBRARY_PATH", build / "lib"),
                DLLM_LIBRARY=str(build / "lib" / "libdllm.so"), ROOT=str(root),
                PYTHONPATH=before("PYTHONPATH", root / "bindings" / "python"),
                PYTHONDONTWRITEBYTECODE="1")


def enter_checkout(root, build, scratch, around):
    """README.md: the folders of a checkout; nothing is installed."""
    for folder in ("include", "scripts"):
        (scratch / folder).symlink_to(root / folder)
    (scratch / "build").mkdir()
    (scratch / "build" / "release").symlink_to(build)
    own = ("PATH", "CPATH", "LIBRARY_PATH", "LD_LIBRARY_PATH", "DLLM_LIBRARY", "PYTHONPATH")
    plain = {name: value for name, value in around.items() if name not in own}
    return dict(plain, PATH=os.environ.get("PATH", os.defpath))


def command_of(language, number, code, scratch):
    if language == "sh":
        return ["sh", "-euc", code]
    file = scratch / f"block_{number}.{'py' if language == 'python' else 'lua'}"
    file.write_text(code)
    return [sys.executable, str(file)] if language == "python" else ["dllm", "run", str(file)]


class Blocks:
    """Runs blocks. At the end it ends what they left running: a server in the background is of the session of its block."""

    def __init__(self):
        self.sessions = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for session in self.sessions:
            try:
                os.killpg(session, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def run(self, command, scratch, around):
        """The exit code and the output of a block."""
        process = subprocess.Popen(command, cwd=scratch, env=around, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   stdin=subprocess.DEVNULL, start_new_session=True)
        self.sessions.append(process.pid)
        output = process.communicate(timeout=SECONDS)[0]
        return process.returncode, output


def lacking(code, lacks):
    """The first command of `lacks` that a line of the block begins with, or None."""
    lines = [line.strip() for line in code.splitlines()]
    return next((command for command in lacks if any(line.startswith(command + " ") for line in lines)), None)


def run_page(root, build, scratch, page, lacks):
    with Blocks() as running:
        run_blocks(running, root, build, scratch, page, lacks)


def run_blocks(running, root, build, scratch, page, lacks):
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    (scratch / "corpus.txt").write_text(
        "".join(f"the {who} {did} the {what}\n" for who in WHO for did in DID for what in WHAT))
    around, count = environment(root, build), 0
    if page.name == "README.md":
        around = enter_checkout(root, build, scratch, around)
    for number, language, name, code in blocks(page.read_text()):
        if language not in ("sh", "lua", "c", "cpp", "python"):
            continue
        count += 1
        if name:
            (scratch / name).write_text(code)
            continue
        if language in ("c", "cpp"):
            raise SystemExit(f"{page.name}:{number}: a block of C or C++ needs a file name")
        if language == "sh" and lacking(code, lacks):
            print(f"== {page.name}:{number} sh: left out, {lacking(code, lacks)} is not here\n", flush=True)
            continue
        code, output = running.run(command_of(language, number, code, scratch), scratch, around)
        print(f"== {page.name}:{number} {language}: {code}\n{output}", flush=True)
        if code:
            raise SystemExit(f"{page.name}:{number}: the block failed")
    if count == 0:
        raise SystemExit(f"{page.name} has no block that can be run")


if __name__ == "__main__":
    run_page(*(pathlib.Path(argument).resolve() for argument in sys.argv[1:5]), sys.argv[5:])
