"""Compares the tables of docs/decisions/0013-defaults.md with the schemas of the library: every key of every kind, and its
default. usage: defaults.py ROOT (DLLM_LIBRARY and PYTHONPATH as for the Python package)"""
import pathlib
import re
import sys

import dllm

PAGE = "docs/decisions/0013-defaults.md"


def shown(default) -> str:
    """A default as the page writes it."""
    if isinstance(default, bool):
        return "true" if default else "false"
    if isinstance(default, list):
        return default[0] if default else "[]"
    if isinstance(default, (int, float)):
        return f"{default:.10g}"
    return default or "empty"


def entries(text: str) -> dict[str, list[tuple[str, str]]]:
    """{kind: [(key, default)]} of the tables. The first cell of a table's head is the kind of its first column."""
    found: dict[str, list[tuple[str, str]]] = {}
    section, column = "", ""
    for line in text.splitlines():
        if line.startswith("## "):
            section = re.split(r"[:,] ", line[3:])[0]
        if not line.startswith("|") or section == "Changed":
            column = ""
            continue
        if line.startswith("|-"):
            continue
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not column:
            column = cells[0]
            continue
        if column == "option, default":
            first = cells[0].split(" ")[0]
            owners = [first if first in dllm.names("options") else section]
        else:
            kind = "decoder" if column == "policy" else column
            owners = [kind if name == "all" else f"{kind}:{name}" for name in cells[0].split(", ")]
        pairs = re.findall(r"`([a-z0-9_.]+)` ([^,;:(]+)", "; ".join(cells[:2]))
        for owner in owners:
            found.setdefault(owner, []).extend((key, value.strip()) for key, value in pairs)
    return found


def of_decoder(kind: str, key: dict) -> bool:
    """Whether a request has the key and its default from the decoder of its policy."""
    base, _, policy = kind.partition(":")
    name = f"decoder:{policy}" if policy else "decoder"
    return base == "request" and any((row["name"], row["default"]) == (key["name"], key["default"])
                                     for row in dllm.schema(name)["keys"])


def main() -> int:
    found = entries((pathlib.Path(sys.argv[1]) / PAGE).read_text())
    wrong, seen = [], 0
    bases = {kind: {key["name"] for key in dllm.schema(kind)["keys"]} for kind in dllm.names("options") if ":" not in kind}
    for kind in dllm.names("options"):
        base = kind.split(":")[0]
        for key in dllm.schema(kind)["keys"]:
            if ":" in kind and key["name"] in bases.get(base, ()) or key["name"] != "policy" and of_decoder(kind, key):
                continue
            seen += 1
            wanted = (key["name"], shown(key["default"]))
            if wanted not in found.get(kind, []):
                wrong.append(f"{kind}: `{wanted[0]}` {wanted[1]} is not in the tables")
    for kind, pairs in found.items():
        known = {key["name"] for key in dllm.schema(kind)["keys"]}
        wrong += [f"{kind}: there is no option {key}" for key, _ in pairs if key not in known]
    print("\n".join(wrong))
    print(f"{PAGE}: {seen} options, {len(wrong)} differences")
    return 1 if wrong or seen < 200 else 0


if __name__ == "__main__":
    sys.exit(main())
