#!/usr/bin/env python3
"""The widths of lines of C and C++.   columns.py ROOT

No line is wider than 100 columns. Texts of the code do not count, because they cannot be broken, and neither does a line that
is one word. In a header a declaration of more than 60 columns has its comment above it, not after it (docs/style.md)."""
import pathlib
import re
import sys

LIMIT = 100
WIDE_DECLARATION = 60
FOLDERS = ("include", "src", "abi", "bench", "tests")
ENDINGS = {".h", ".hpp", ".c", ".cpp"}
RAW = re.compile(r'R"([^()\s]*)\((.*?)\)\1"', re.DOTALL)
TEXT_OR_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)\'|//[^\n]*|/\*.*?\*/', re.DOTALL)
ONE_WORD = re.compile(r"\s*(//|\*)?\s*\S+\s*")


def without_texts(source):
    """The same lines, where the texts of the code are empty. Comments keep their quotes."""
    source = RAW.sub(lambda raw: '""' + "\n" * raw.group().count("\n"), source)
    return TEXT_OR_COMMENT.sub(lambda found: '""' if found.group()[0] == '"' else found.group(), source)


def declaration_of(line):
    """The code before a comment at the end of a line, or nothing."""
    for found in TEXT_OR_COMMENT.finditer(line):
        if found.group().startswith("//"):
            return line[:found.start()].strip()
    return ""


def main(root):
    wide, files = [], 0
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in ENDINGS:
                continue
            files += 1
            place, source = path.relative_to(root), path.read_text(encoding="utf-8")
            wide += [f"{place}:{number}: {len(line)} columns"
                     for number, line in enumerate(without_texts(source).splitlines(), 1)
                     if len(line) > LIMIT and not ONE_WORD.fullmatch(line)]
            if folder in ("include", "src", "abi") and path.suffix in (".h", ".hpp"):
                wide += [f"{place}:{number}: move the comment above this declaration of {len(declaration_of(line))} columns"
                         for number, line in enumerate(source.splitlines(), 1) if len(declaration_of(line)) > WIDE_DECLARATION]
    print("\n".join([*wide, f"{files} files, {len(wide)} wide lines"]))
    return bool(wide) or files < 100


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
