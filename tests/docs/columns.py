#!/usr/bin/env python3
"""No line of C or C++ is wider than 100 columns.   columns.py ROOT

Texts in quotes do not count, and neither does a line that is one word: they cannot be broken."""
import pathlib
import re
import sys

LIMIT = 100
FOLDERS = ("include", "src", "abi", "bench", "tests")
ENDINGS = {".h", ".hpp", ".c", ".cpp"}
RAW = re.compile(r'R"([^()\s]*)\((.*?)\)\1"', re.DOTALL)
TEXT = re.compile(r'"(?:[^"\\\n]|\\.)*"')
ONE_WORD = re.compile(r"\s*(//|\*)?\s*\S+\s*")


def without_texts(source):
    """The same lines, where the texts in quotes are empty."""
    source = RAW.sub(lambda raw: '""' + "\n" * raw.group().count("\n"), source)
    return TEXT.sub('""', source)


def main(root):
    wide, files = [], 0
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in ENDINGS:
                continue
            files += 1
            lines = without_texts(path.read_text(encoding="utf-8")).splitlines()
            wide += [f"{path.relative_to(root)}:{number}: {len(line)} columns"
                     for number, line in enumerate(lines, 1)
                     if len(line) > LIMIT and not ONE_WORD.fullmatch(line)]
    print("\n".join([*wide, f"{files} files, {len(wide)} lines wider than {LIMIT} columns"]))
    return bool(wide) or files < 100


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
