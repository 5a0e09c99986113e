#!/usr/bin/env python3
"""Every hint names something that exists.   hints.py ROOT

A hint is the first text of fail_with_hint. Names in it that no sentence has (snake_case words, --options, paths of the
tree, functions of the C interface) must occur in the tree outside of hints."""
import pathlib
import re
import sys

CALL = re.compile(r"\bfail_with_hint\(")
TEXT = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
NAME = re.compile(r"--[a-z][a-z0-9-]+|\b(?:scripts|docs|bindings|src|include)/[\w./-]+|\b[a-z][a-z0-9]*(?:_[a-z0-9]+)+\b")
KEY = re.compile(r"\b(?:set|option) ([a-z]{3,})\b(?! of\b)")  # "set steps to 0"
SENTENCE = {"the", "all", "both", "this", "that", "one", "them"}
# Names of PyTorch, PEFT, transformers, pyarrow and huggingface_hub, which write the files that a hint is about.
OTHERS = {"weights_only", "save_pretrained", "path_initial_model_for_weight_conversion", "data_page_size",
          "write_batch_size", "hf_xet"}
FOLDERS = ("src", "abi")
SOURCES = ("*.h", "*.hpp", "*.cpp", "*.c")


def hint_at(source, begin):
    """The texts of the first argument, and where the argument ends."""
    depth, at, texts = 1, begin, []
    while depth > 0:
        text = TEXT.match(source, at)
        if text:
            texts.append(text.group(1))
            at = text.end()
            continue
        depth += {"(": 1, "{": 1, "[": 1, ")": -1, "}": -1, "]": -1}.get(source[at], 0)
        if depth == 1 and source[at] == ",":
            break
        at += 1
    return "".join(texts), at


def read_tree(root):
    """Hints with their places, and all other text."""
    hints, rest = [], []
    for folder in FOLDERS:
        for pattern in SOURCES:
            for path in sorted((root / folder).rglob(pattern)):
                source, kept, last = path.read_text(encoding="utf-8"), [], 0
                for call in CALL.finditer(source):
                    text, end = hint_at(source, call.end())
                    hints.append((f"{path.relative_to(root)}:{source.count(chr(10), 0, call.start()) + 1}", text))
                    kept.append(source[last:call.end()])
                    last = end
                rest += [*kept, source[last:]]
    for path in (root / "include").rglob("*.h"):
        rest.append(path.read_text(encoding="utf-8"))
    return hints, "\n".join(rest)


def exists(name, root, rest):
    if name.startswith("--"):
        key = name[2:]
        return any(f'"{spelled}"' in rest or f'"--{spelled}' in rest or f"--{spelled} " in rest or f".{spelled}\"" in rest
                   for spelled in (key, key.replace("-", "_")))
    if "/" in name:
        return (root / name.rstrip(".")).exists()
    return re.search(rf"\b{name}\b", rest) is not None


def main(root):
    hints, rest = read_tree(root)
    missing, names = [], 0
    for place, text in hints:
        keys = [key for key in KEY.findall(text) if key not in SENTENCE]
        for name in NAME.findall(text) + keys:
            names += 1
            known = f'"{name}"' in rest if name in keys else name in OTHERS or exists(name, root, rest)
            if not known:
                missing.append(f'{place}: "{name}" occurs in no other place: {text}')
    print("\n".join([*missing, f"{len(hints)} hints with {names} names, {len(missing)} of nothing"]))
    return bool(missing) or len(hints) < 300 or names < 100


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
