"""What the tests of options share: running the program, and the options that --help lists."""
import fcntl
import json
import os
import re
import shutil
import subprocess

LINES = [f"line {i}: the cat sat on the mat and dog {i * 7 % 90} sat on the log." for i in range(120)]


def talks(lines):
    """JSON lines of conversations, which have another conversation in "turns"."""
    def talk(question, answer):
        return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return "".join(json.dumps({"messages": talk(line, line.upper()), "turns": talk(line[::-1], line.title())}) + "\n" for line in lines)


class Program:
    def __init__(self, path, folder):
        self.path, self.folder, self.failures = path, folder, 0
        version = subprocess.run([path, "--version"], text=True, capture_output=True, timeout=60).stdout
        self.has_openmp = '"openmp": true' in version

    def ok(self, condition, what):
        print(("ok   " if condition else "FAIL ") + what, flush=True)
        self.failures += not condition

    def changes(self, left, baseline, done, shown):
        """Expects a run with a result, and another one than that of the baseline."""
        self.ok(left is not None, f"{shown}: runs {done.stderr[-300:] if left is None else ''}")
        self.ok(left != baseline, f"{shown}: changes the result")

    def empty_folder(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)

    def run(self, *words, stdin=""):
        return subprocess.run([self.path, *words], cwd=self.folder, text=True, capture_output=True, timeout=60, input=stdin)

    def has_one_writer(self, out, *words):
        """Expects that a command leaves the file that another process writes to as it is, and takes it after that process."""
        self.ok(self.run(*words).returncode == 0, f"{words[0]} writes {out}")
        lock = self.folder / f"{out}.lock"
        self.ok(not lock.exists(), f"{lock.name} does not stay")
        before = (self.folder / out).read_bytes()
        (self.folder / out).write_bytes(before[:-5])  # the last line has to be made again
        with lock.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            print(os.getpid(), file=file, flush=True)
            done = self.run(*words)
            self.ok(done.returncode == 1 and f"{out} is in use: process {os.getpid()} writes to it" in done.stderr and "--out" in done.stderr,
                    f"{words[0]}: a second writer is refused: {done.returncode} {done.stderr}")
            self.ok((self.folder / out).read_bytes() == before[:-5], f"{words[0]}: a refused call changes nothing")
        # A process that was killed leaves the file, and the system releases its lock.
        self.ok(self.run(*words).returncode == 0 and (self.folder / out).read_bytes() == before, f"{words[0]} goes on after the other writer")

    def options_of(self, command, *words):
        """The full name of every option: the last of "--bare, --kind.key"; words: what else stands before --help."""
        names = set()
        for line in self.run(command, *words, "--help").stdout.splitlines():
            found = re.match(r" {1,6}((?:-h, )?--[^ ,]+(?:, --[^ ,]+)*)", line)
            if found:
                names.add(max(re.findall(r"--[^ ,]+", found.group(1)), key=lambda name: (name.count("."), len(name))))
        return names


def words_of(options):
    """{"--steps": "4", "--quiet": "", "--text": None, "": "PATH"} as words, "": ["A", "B"] as two; None leaves an option out."""
    words = []
    for name, value in options.items():
        if value is not None:
            words += [name] * (name != "") + (value if isinstance(value, list) else [value] * (value != ""))
    return words
