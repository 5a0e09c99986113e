"""texts.py MONO TEXTS_EXE ROOT: runs the tests of text in and text out. C# has no JSON in its standard library here, so
that the table of texts goes to the program as lines, in the file that DLLM_CASES names."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from urllib.parse import quote


def value(given):
    if isinstance(given, list):
        return "l:" + quote("\n".join(given))
    return {int: "i:", float: "f:", str: "s:"}[type(given)] + quote(str(given))


def line(case):
    settings = [f"{key}={value(given)}" for key, given in case["settings"].items()]
    return "\t".join([case["name"], case["call"], quote(case["text"]), quote(case["expect"]), *settings])


def main(mono, program, root):
    table = json.loads((pathlib.Path(root) / "tests/bindings/generate_cases.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        cases = pathlib.Path(folder) / "cases.txt"
        cases.write_text("".join(line(case) + "\n" for case in table["cases"]), encoding="utf-8")
        run = subprocess.run([mono, program, root], env={**os.environ, "DLLM_CASES": str(cases)}, check=False)
    return run.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
