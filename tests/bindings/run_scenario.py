"""run_scenario.py COMMAND...: runs a language's scenario and compares what it prints with scenario.md and tokens.txt."""
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def points():
    rows = re.findall(r"^\| (\d+) \| (\w+) \|", (HERE / "scenario.md").read_text(), re.MULTILINE)
    return [f"point {number} {name} ok" for number, name in rows]


def main():
    run = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, text=True, check=False)
    print(run.stdout, end="")
    printed = set(run.stdout.splitlines())
    wanted = points() + (HERE / "tokens.txt").read_text().split("\n")
    missing = [line for line in wanted if line and line not in printed]
    for line in missing:
        print(f"missing: {line}")
    if run.returncode:
        print(f"exit status {run.returncode}")
    return 1 if missing or run.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
