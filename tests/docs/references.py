#!/usr/bin/env python3
"""Nothing in the tree refers to a page that its reader cannot open.   references.py ROOT

Cite papers and public repositories (docs/glossary.md has the field's words). Prints file, line and match; exit 1 for any."""
import os
import re
import sys

OUTSIDE = re.compile(r"\bspec-[a-z]+-[a-z]+|\bdesign (?:section )?[0-9]|\bhouse[- ]style")
PAGE = re.compile(r"[\w./-]*\w\.md\b")  # must be in the tree, unless its line names the repository that has it
FOLDERS = ("src", "abi", "include", "bindings", "scripts", "tests", "bench", "docs", "README.md", "CHANGELOG.md", "CMakeLists.txt")
ENDINGS = (".h", ".hpp", ".cpp", ".c", ".md", ".txt", ".lua", ".py", ".cmake", ".json", ".toml", ".html")


def files(root):
    for folder in FOLDERS:
        path = os.path.join(root, folder)
        if os.path.isfile(path):
            yield path
        for where, _, names in os.walk(path):
            yield from (os.path.join(where, name) for name in names)


def is_in(pages, name):
    """Relative links, and pages named by the end of their path."""
    name = "/" + name.replace("../", "").lstrip("./")
    return any(page.endswith(name) for page in pages)


def main(root):
    found = looked = 0
    pages = {"/" + os.path.relpath(path, root) for path in files(root) if path.endswith(".md")} | {"/README.md"}
    for path in files(root):
        if not path.endswith(ENDINGS) or os.path.basename(path) == "references.py":
            continue
        looked += 1
        with open(path, encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                outside = [match.group() for match in OUTSIDE.finditer(line)]
                if "github.com" not in line and "ggml" not in line:
                    outside += [page for page in PAGE.findall(line) if not is_in(pages, page)]
                for name in outside:
                    found += 1
                    print(f"{os.path.relpath(path, root)}:{number}: {name}")
    print(f"{looked} files, {found} references that lead nowhere")
    return found > 0 or looked < 500


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
