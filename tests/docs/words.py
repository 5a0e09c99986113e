#!/usr/bin/env python3
"""No file uses a retired word of docs/words.txt.   words.py ROOT FOLDER...

Prints file, line, the word and what to use; exit 1 for any. With --self-test it checks its own rules."""
import os
import re
import sys

ENDINGS = (".h", ".hpp", ".cpp", ".c", ".md", ".txt", ".lua", ".py", ".cmake", ".json", ".toml", ".html", ".in")
LISTS = ("docs/words.txt", "tests/docs/words.py")


def pattern(word):
    """The word itself, and as a part of a snake_case or CamelCase name."""
    capital = word[0].upper() + word[1:]
    initial = f"[{word[0].upper()}{word[0].lower()}]{word[1:]}" if word[0].isalpha() else word
    return re.compile(f"(?<![A-Za-z]){initial}(?![a-z])|(?<=[a-z]){capital}(?![a-z])")


def opening(word):
    """Letters that every match of a word begins with, in lower case. To look for them first takes a tenth of the time."""
    letters = re.match(r"[A-Za-z ]*", word).group()
    return letters[:-1 if word[len(letters):len(letters) + 1] in ("?", "*") else None].lower()


def read_list(lines):
    retired, allowed = [], []
    for line in lines:
        line = line.strip()
        if line.startswith("allow "):
            _, folder, regex = line.split(None, 2)
            allowed.append((folder, re.compile(regex)))
        elif line and not line.startswith("#"):
            words, use = line.rsplit(": ", 1)
            retired += [(opening(word.strip()), pattern(word.strip()), use) for word in re.split(r",(?![^(]*\))", words)]
    return retired, allowed


def below(name, folder):
    return folder == "." or name == folder or name.startswith(folder + "/")


def complaints(name, lines, retired, allowed):
    lines = list(lines)
    whole = "".join(lines).lower()
    present = [(regex, use) for start, regex, use in retired if start in whole]
    rules = [regex for folder, regex in allowed if below(name, folder)]
    for number, line in enumerate(lines, 1):
        for regex, use in present:
            match = regex.search(line)
            if match and not any(rule.search(line) for rule in rules):
                yield f'{name}:{number}: "{match.group()}": use {use}'


def files(root, folders):
    for folder in folders:
        path = os.path.join(root, folder)
        if not os.path.exists(path):
            sys.exit(f"{path} does not exist")
        if os.path.isfile(path):
            yield path
        for where, _, names in os.walk(path):
            yield from (os.path.join(where, name) for name in sorted(names))


def self_test():
    retired, allowed = read_list(["tell, told: returns", "answers (the|a): returns", "allow a/b told_you"])
    cases = (("// Tells x", 0), ("they tell it", 1), ("int told_count;", 1), ("class LoopTold {", 1), ("untold", 0),
             ("Tell", 1), ("tellme", 0), ("it answers the call", 1), ("answers of the model", 0), ("to intellect", 0))
    for line, wanted in cases:
        found = list(complaints("a/c.h", [line], retired, allowed))
        assert len(found) == wanted, (line, found)
    assert list(complaints("a/c.h", ["", "told"], retired, allowed)) == ['a/c.h:2: "told": use returns']
    assert not list(complaints("a/b/c.h", ["told_you"], retired, allowed))
    assert list(complaints("a/bc.h", ["told_you"], retired, allowed))


def main(root, folders):
    self_test()
    with open(os.path.join(root, "docs/words.txt"), encoding="utf-8") as lines:
        retired, allowed = read_list(lines)
    found, looked = [], 0
    for path in files(root, folders):
        name = os.path.relpath(path, root).replace(os.sep, "/")
        if name in LISTS or "/__pycache__/" in name or (os.path.splitext(name)[1] not in ENDINGS + ("",)):
            continue
        looked += 1
        with open(path, encoding="utf-8", errors="replace") as lines:
            found += complaints(name, lines, retired, allowed)
    print("\n".join(found + [f"{looked} files, {len(found)} retired words"]))
    return bool(found) or looked < len(folders)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
