"""test_package.py FOLDER MODULES: scripts/package npm, twice with equal bytes; npm installs it into a clean folder, where
it runs the scenario with the library that it brought, the programs of the README, and is checked by TypeScript.
MODULES has TypeScript and the types of Node. Exit status 77 where npm cannot fetch koffi."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[3]
HERE = pathlib.Path(__file__).resolve().parent
LOADED = ("require('dllm'); const maps = require('fs').readFileSync('/proc/self/maps', 'utf8');"
          "console.log(maps.match(/\\/.*libdllm.*/)[0])")


def package(out):
    run = subprocess.run([str(ROOT / "scripts/package"), "npm", "--library", os.environ["DLLM_LIBRARY"], "--out",
                          str(out)], check=True, stdout=subprocess.PIPE, text=True)
    return pathlib.Path(run.stdout.strip())


def program(title):
    readme = (ROOT / "bindings/node/README.md").read_text()
    block = re.search(rf"^## {title}\n\n((?:    .*\n|\n)+)", readme, re.MULTILINE).group(1)
    return textwrap.dedent(block).strip() + "\n"


def run_readme(folder, environment):
    decode, train = program("Ten lines that decode"), program("Fifteen lines that train")
    assert decode.count("\n") <= 10 and train.count("\n") <= 15
    with open(folder / "corpus.txt", "w") as corpus:
        corpus.writelines(f"The wise man sat by the sea and looked at moon {i % 7}\n" for i in range(200))
    for name, text in (("train.mjs", train), ("decode.mjs", decode.replace("runs/quickstart", "runs/mine"))):
        (folder / name).write_text(text)
        subprocess.run(["node", name], check=True, cwd=folder, env=environment, stdout=subprocess.DEVNULL)


def check_types(folder, modules):
    compiler = [str(modules / ".bin/tsc"), "--strict", "--noEmit", "--module", "nodenext", "--target", "es2022", "--lib",
                "es2023,esnext.disposable", "--typeRoots", str(modules / "@types"), "--types", "node"]
    right = (HERE / "program.mts").read_text()
    wrong = right.replace("encode('the')", "encode(7)").replace("Promise<string>", "Promise<number>")
    for name, text, errors in (("program.mts", right, 0), ("program.cts", right, 0), ("wrong.mts", wrong, 2)):
        (folder / name).write_text(text)
        said = subprocess.run([*compiler, name], check=False, cwd=folder, stdout=subprocess.PIPE, text=True).stdout
        assert said.count("error TS") == errors, f"{name}: wanted {errors} errors\n{said}"


def main():
    folder, modules = (pathlib.Path(word).resolve() for word in sys.argv[1:])
    shutil.rmtree(folder, ignore_errors=True)
    tarball, again = package(folder / "first"), package(folder / "second")
    assert tarball.read_bytes() == again.read_bytes(), "two builds of the tarball differ"

    clean = {name: value for name, value in os.environ.items() if name not in ("NODE_PATH", "DLLM_LIBRARY")}
    place = folder / "clean"
    place.mkdir()
    (place / "package.json").write_text('{"private": true}\n')
    if subprocess.run(["npm", "install", "--prefer-offline", "--no-audit", "--no-fund", "--silent", str(tarball)], cwd=place,
                      check=False, env=clean).returncode:
        print("npm cannot fetch koffi: the package is not installed")
        return 77
    loaded = subprocess.run(["node", "-e", LOADED], check=True, cwd=place, env=clean, stdout=subprocess.PIPE,
                            text=True).stdout
    assert loaded.startswith(str(place)), f"not the library of the package: {loaded}"
    for name in ("tiny.js", "scenario.js"):
        shutil.copy(HERE / name, place)
    run_readme(place, clean)
    check_types(place, modules)
    return subprocess.run([sys.executable, "-B", str(ROOT / "tests/bindings/run_scenario.py"), "node",
                           str(place / "scenario.js")], check=False, env=clean).returncode


if __name__ == "__main__":
    sys.exit(main())
