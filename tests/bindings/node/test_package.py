"""test_package.py FOLDER MODULES: scripts/package npm, twice with equal bytes; npm installs it into a clean folder, where
it runs the scenario with the library that it brought, the programs of the README, and is checked by TypeScript.
MODULES has TypeScript and the types of Node. Exit status 77 where npm cannot fetch koffi."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from hub_cache import write_cache
from readme import every_program, write_corpus

ROOT = pathlib.Path(__file__).resolve().parents[3]
HERE = pathlib.Path(__file__).resolve().parent
LOADED = ("require('dllm'); const maps = require('fs').readFileSync('/proc/self/maps', 'utf8');"
          "console.log(maps.match(/\\/.*libdllm.*/)[0])")


def package(out):
    run = subprocess.run([str(ROOT / "scripts/package"), "npm", "--library", os.environ["DLLM_LIBRARY"], "--out",
                          str(out)], check=True, stdout=subprocess.PIPE, text=True)
    return pathlib.Path(run.stdout.strip())


def run_readme(folder, environment):
    write_corpus(folder)
    for name, text in every_program("node", "dllm for Node").items():
        (folder / f"{name}.mjs").write_text(text)
        if name == "hub":
            environment = {**environment, **write_cache(folder / "cache", folder / "runs/mine")}
        subprocess.run(["node", f"{name}.mjs"], check=True, cwd=folder, env=environment, stdout=subprocess.DEVNULL)


MISTAKES = (("threads: 2", "thread: 2"), ("pjrt.device", "pjrt.devise"), ("'q8_0'", "'q8'"), ("slots: 8", "slot: 8"),
            ("temperature: 0.5", "temprature: 0.5"), ("['.']", "'.'"), ("threshold: 0.6", "threshold: '0.6'"),
            ("length: 9", "lenght: 9"), ("steps: 2", "steps: '2'"), ("infill: 'the", "infil: 'the"), ("seed: 1 ", "seed: [1] "),
            ("alg_temp", "alg_tmp"), ("stop: [3]", "stop: 3"), ("cache_dtype", "cache_type"), ("muon", "moon"),
            ("rank: 4", "rang: 4"), ("targets: ['q']", "targets: 'q'"),
            ("lr: 1e-3", "learning_rate: 1e-3"), ("answer.finish", "answer.finished"))


def check_settings(folder, compiler):
    right = (HERE / "settings.mts").read_text()
    head, function = right.split("\n\n", 1)
    copies = [function]
    for given, mistake in MISTAKES:
        assert function.count(given) == 1, f"{given} is not once in settings.mts"
        copies.append(function.replace(given, mistake).replace("function work", f"function work{len(copies)}"))
    (folder / "settings.mts").write_text(head + "\n\n" + "".join(copies))
    said = subprocess.run([*compiler, "settings.mts"], check=False, cwd=folder, stdout=subprocess.PIPE, text=True).stdout
    lines = {int(line) for line in re.findall(r"^settings\.mts[(:](\d+)", said, re.MULTILINE)}
    first, size = head.count("\n") + 3, function.count("\n")
    for at, mistake in enumerate(["nothing wrong", *(mistake for _, mistake in MISTAKES)]):
        refused = bool(lines & set(range(first + at * size, first + (at + 1) * size)))
        assert refused == (at > 0), f"TypeScript {'refuses' if refused else 'accepts'} {mistake}\n{said}"


def check_types(folder, modules):
    compiler = [str(modules / ".bin/tsc"), "--strict", "--noEmit", "--module", "nodenext", "--target", "es2022", "--lib",
                "es2023,esnext.disposable", "--typeRoots", str(modules / "@types"), "--types", "node"]
    right = (HERE / "program.mts").read_text()
    wrong = right.replace("encode('the')", "encode(7)").replace("Promise<string>", "Promise<number>")
    for name, text, errors in (("program.mts", right, 0), ("program.cts", right, 0), ("wrong.mts", wrong, 2)):
        (folder / name).write_text(text)
        said = subprocess.run([*compiler, name], check=False, cwd=folder, stdout=subprocess.PIPE, text=True).stdout
        assert said.count("error TS") == errors, f"{name}: wanted {errors} errors\n{said}"
    check_settings(folder, compiler)


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
