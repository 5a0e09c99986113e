"""The progress line of dllm train in terminals of several widths: one row, rewritten in place, also after a resize.

train_terminal.py DLLM SCRATCH
"""
import fcntl
import os
import pathlib
import pty
import re
import shutil
import struct
import sys
import termios

DLLM, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2])
WORDS = ("train --data corpus.txt --rows line --layers 1 --hidden 64 --vocab 300 --length 32 --batch 4 --eval-every 0 "
         "--steps").split()
failures = 0


def ok(condition, what):
    global failures
    print(("ok   " if condition else "FAIL ") + what, flush=True)
    failures += not condition


def set_width(fd, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


def watch(out, columns, resize=None, steps=40, **extra):
    """All that the program wrote; resize: the width after ten progress lines."""
    pid, fd = pty.fork()
    if pid == 0:
        # The parent has set the size when this reads its line.
        sys.stdin.readline()
        os.chdir(SCRATCH)
        os.execve(DLLM, [DLLM, *WORDS, str(steps), "--out", out], dict(os.environ, TERM="xterm", **extra))
    set_width(fd, columns)
    os.write(fd, b"\n")
    read, resized = b"", False
    while True:
        try:
            data = os.read(fd, 65536)
        except OSError:
            break
        if not data:
            break
        read += data
        if resize and not resized and read.count(b"\x1b[2K") >= 10:
            set_width(fd, resize)
            resized = True
    _, status = os.waitpid(pid, 0)
    os.close(fd)
    ok(os.waitstatus_to_exitcode(status) == 0, f"width {columns}: exit 0")
    return read.decode("utf-8", "replace")


def lines_of(text):
    return [line.split("\r\n")[0] for line in text.split("\r\x1b[2K")[1:]]


shutil.rmtree(SCRATCH, ignore_errors=True)
SCRATCH.mkdir(parents=True)
(SCRATCH / "corpus.txt").write_text("".join(f"the {a} sat by the {b}\n" for a in "cat dog bird moon".split()
                                            for b in "sea tree night wind house".split()))
for columns in (20, 40, 60, 80, 110):
    text = watch(f"run{columns}", columns)
    lines = lines_of(text)
    ok(len(lines) == 40, f"width {columns}: a line a step, rewritten in place ({len(lines)})")
    widest = max(map(len, lines), default=0)
    ok(widest < columns, f"width {columns}: the widest line has {widest} columns")
    ok(all(re.match(r"step \d+", line) for line in lines), f"width {columns}: the step is always there")
    ok(columns < 60 or all("loss" in line and "eta" in line for line in lines), f"width {columns}: loss and eta are there")
# The terminal holds some lines of the old width when the size changes: once a line is narrow, all are.
widths = [len(line) for line in lines_of(watch("resized", 110, resize=40, steps=400))]
first = next((i for i, width in enumerate(widths) if 0 < width < 40), len(widths))
ok(10 <= first < len(widths) and max(widths[first:]) < 40, "a narrower window narrows the line")
text = watch("unknown", 0, COLUMNS="50")
ok(max(map(len, lines_of(text))) < 50, "a terminal without a size: COLUMNS counts")
sys.exit(1 if failures else 0)
