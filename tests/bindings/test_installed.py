"""test_installed.py KIND FOLDER TOOL...: scripts/package KIND, twice with equal bytes; the language's own installer takes it
into a clean folder, where the scenario runs with the library that came in the package.
  nuget FOLDER MCS MONO [NUGET]     without NUGET the package is unzipped, as that program would
  crate FOLDER CARGO                from a local registry, into a CARGO_HOME of its own
  go FOLDER GO                      from a module proxy of files, into a GOMODCACHE of its own; purego from GOMODCACHE"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
HIDDEN = ("DLLM_LIBRARY", "DLLM_LIB_DIR", "LD_LIBRARY_PATH", "CARGO_TARGET_DIR")


def make(kind, out):
    subprocess.run([str(ROOT / "scripts/package"), kind, "--library", os.environ["DLLM_LIBRARY"], "--out", str(out)],
                   check=True, stdout=subprocess.DEVNULL)
    return {file.relative_to(out): file.read_bytes() for file in sorted(out.rglob("*")) if file.is_file()}


def environment(**more):
    return {name: value for name, value in os.environ.items() if name not in HIDDEN} | more


def check_library(folder):
    """The trace of glibc's loader names the library of the package and no other."""
    opened = {match for file in folder.glob("loader.*") for match in
              re.findall(r"calling init: (/\S*libdllm\S*)", file.read_text(errors="replace"))}
    assert opened, "no program opened libdllm"
    foreign = [path for path in opened if not os.path.realpath(path).startswith(str(folder))]
    assert not foreign, f"not the library of the package: {foreign}"


def scenario(folder, words, variables, place):
    traced = variables | {"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(folder / "loader")}
    run = subprocess.run([sys.executable, "-B", str(HERE / "run_scenario.py"), *map(str, words)], cwd=place, env=traced,
                         check=False)
    check_library(folder)
    return run.returncode


def run_nuget(folder, packages, mcs, mono, nuget=None):
    installed = folder / "installed"
    if nuget:
        subprocess.run([nuget, "install", "Dllm", "-Source", str(packages), "-OutputDirectory", str(installed)], check=True,
                       env=environment(HOME=str(folder)))
    else:
        with zipfile.ZipFile(next(packages.glob("*.nupkg"))) as archive:
            archive.extractall(installed / "Dllm.0.2.0")
    package, = installed.glob("Dllm.*")
    assembly = package / "lib/netstandard2.1/Dllm.dll"
    program = folder / "app"
    program.mkdir()
    shutil.copy(assembly, program)  # what a build with the package does
    shutil.copytree(package / "runtimes", program / "runtimes")
    sources = [str(HERE / "csharp" / name) for name in ("Tiny.cs", "Scenario.cs")]
    subprocess.run([mcs, "-langversion:7", f"-r:{assembly}", f"-out:{program}/scenario.exe", *sources], check=True)
    return scenario(folder, [mono, program / "scenario.exe"], environment(), program)


def run_crate(folder, packages, cargo):
    home, program = folder / "home", folder / "app"
    home.mkdir()
    shutil.copytree(HERE / "rust/src", program / "src")
    manifest = (HERE / "rust/Cargo.toml").read_text()
    (program / "Cargo.toml").write_text(re.sub(r'path = "[^"]*"', 'version = "0.2"', manifest))
    (home / "config.toml").write_text(f'[source.crates-io]\nreplace-with = "here"\n\n[source.here]\nlocal-registry = "{packages}"\n')
    variables = environment(CARGO_HOME=str(home))
    variables.setdefault("RUSTUP_HOME", str(pathlib.Path.home() / ".rustup"))
    subprocess.run([cargo, "build", "--quiet", "--offline"], check=True, cwd=program, env=variables)
    return scenario(folder, [program / "target/debug/dllm-tests"], variables, program)


def run_go(folder, packages, go):
    program = folder / "app"
    program.mkdir()
    source = (HERE / "go/main.go").read_text().replace('"dllm/internal/tiny"', '"dllm-scenario/tiny"')
    (program / "main.go").write_text(source)
    shutil.copytree(ROOT / "bindings/go/internal/tiny", program / "tiny")
    (program / "go.mod").write_text("module dllm-scenario\n\ngo 1.25.0\n")
    known = pathlib.Path(os.environ["GOMODCACHE"]) / "cache/download"
    variables = environment(GOMODCACHE=str(folder / "modules"), GOPROXY=f"file://{packages},file://{known}", GOSUMDB="off",
                            GOFLAGS="-modcacherw -mod=mod", GODEBUG="goindex=0")  # an index of an earlier module of this version is stale
    for words in (["mod", "edit", "-require", "dllm@v0.2.0", "-replace", "dllm=example.invalid/dllm@v0.2.0"],
                  ["mod", "tidy"], ["build", "-o", "scenario", "."]):
        subprocess.run([go, *words], check=True, cwd=program, env=variables)
    return scenario(folder, [program / "scenario"], variables, program)


def main():
    kind, folder, tools = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), sys.argv[3:]
    shutil.rmtree(folder, ignore_errors=True)
    first, second = make(kind, folder / "first"), make(kind, folder / "second")
    assert first and first.keys() == second.keys()
    different = [str(name) for name, data in first.items() if second[name] != data]
    assert not different, f"two builds differ: {different}"
    runs = {"nuget": run_nuget, "crate": run_crate, "go": run_go}
    return runs[kind](folder, folder / "first", *tools)


if __name__ == "__main__":
    sys.exit(main())
