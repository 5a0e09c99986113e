"""generate_cases.py PROGRAM [--write]: compares the texts of generate_cases.json, which the tests of every binding
expect, with what the program prints for the same settings. With --write the file gets what the program prints."""
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CASES = HERE / "generate_cases.json"
FLAGS = {"stop": "until"}  # a setting of a request, and its name on the command line


def words(settings):
    for key, value in settings.items():
        flag = "--" + FLAGS.get(key, key).replace("_", "-")
        each_is_one = isinstance(value, list) and key != "choices"
        for each in value if each_is_one else [json.dumps(value) if isinstance(value, list) else value]:
            yield from (flag, str(each))


def printed(program, model, case):
    command = [program, case["call"], model, case["text"], "--quiet", *words(case["settings"])]
    run = subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    return run.stdout.decode().removesuffix("\n")


def main():
    program, table = sys.argv[1], json.loads(CASES.read_text(encoding="utf-8"))
    model = str(HERE.parents[1] / table["model"])
    wrong = 0
    for case in table["cases"]:
        text = printed(program, model, case)
        if text != case["expect"]:
            wrong += 1
            print(f"{case['name']}: the file has {case['expect']!r}, the program prints {text!r}")
        case["expect"] = text
    if sys.argv[2:] == ["--write"]:
        CASES.write_text(json.dumps(table, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        return 0
    print(f"{len(table['cases'])} cases, {wrong} differ from the program")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
