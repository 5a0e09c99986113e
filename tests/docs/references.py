#!/usr/bin/env python3
"""Nothing in the tree refers to a page that its reader cannot open.   references.py ROOT

Cite papers and public repositories (docs/glossary.md has the field's words). Prints file, line and match; exit 1 for any."""
import os
import re
import sys

OUTSIDE = re.compile(r"\bspec-[a-z]+-[a-z]+|\bdesign (?:section )?[0-9]|house-style|cpu-notes|seams\.md|anchors\.md"
                     r"|performance-goals|reviews/|faults\.md")
FOLDERS = ("src", "abi", "include", "bindings", "scripts", "tests", "bench", "docs", "README.md", "CMakeLists.txt")
ENDINGS = (".h", ".hpp", ".cpp", ".c", ".md", ".txt", ".lua", ".py", ".cmake", ".json", ".toml", ".html")


def files(root):
    for folder in FOLDERS:
        path = os.path.join(root, folder)
        if os.path.isfile(path):
            yield path
        for where, _, names in os.walk(path):
            yield from (os.path.join(where, name) for name in names)


def main(root):
    found = looked = 0
    for path in files(root):
        if not path.endswith(ENDINGS) or os.path.basename(path) == "references.py":
            continue
        looked += 1
        with open(path, encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                for match in OUTSIDE.finditer(line):
                    found += 1
                    print(f"{os.path.relpath(path, root)}:{number}: {match.group()}")
    print(f"{looked} files, {found} references that lead nowhere")
    return found > 0 or looked < 500


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
