"""table.py BUILD [LANGUAGE...]: what one call costs through every binding that this machine has the language of, next to C, as a table.

Every program makes the same small decoder. "memory": the most that its process held. Languages that are missing are left
out with a line."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COLUMNS = ("version", "metric", "ids", "task")
# What the programs that exist in bindings call the four.
RUST = {"dllm::abi_version": "version", 'Decoder::metric(None, "open")': "metric", "Decoder::ids of 6 positions": "ids",
        "Task::new and drop": "task"}
JULIA = {"DLLM.abi_version": "version", 'metric(decoder, "open")': "metric", "ids(decoder) of 6 positions": "ids",
         "close(DLLM.Task())": "task"}
GO = {"BenchmarkABIVersion": "version", "BenchmarkDecoderMetric": "metric", "BenchmarkDecoderIDs": "ids",
      "BenchmarkTaskNewClose": "task"}


def first(*names):
    return next((found for found in map(shutil.which, names) if found), None)


def quiet(words, **more):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more)


def c_program(build, scratch, _):
    quiet(["cc", "-std=c99", "-O2", HERE / "calls.c", f"-I{ROOT / 'include'}", f"-L{build / 'lib'}",
           f"-Wl,-rpath,{build / 'lib'}", "-ldllm", "-o", scratch / "calls"])
    return [scratch / "calls"], {}


def rust_program(build, scratch, cargo):
    target = {"CARGO_TARGET_DIR": str(build / "rust")}
    quiet([cargo, "build", "--release", "--offline", "--locked", "--example", "overhead"], cwd=ROOT / "bindings/rust",
          env=dict(os.environ, **target))
    return [build / "rust/release/examples/overhead"], {}


def go_program(build, scratch, go, cgo):
    settings = {"CGO_ENABLED": cgo, "GOMODCACHE": str(build / "go/mod"), "GOCACHE": str(build / "go/cache"),
                "GOFLAGS": "-buildvcs=false -modcacherw", "GOTOOLCHAIN": "local"}
    program = scratch / f"calls_go_{cgo}"
    quiet([go, "test", "-c", "-o", program], cwd=ROOT / "bindings/go", env=dict(os.environ, **settings))
    return [program, "-test.run=^$", "-test.bench=ABIVersion|Metric|IDs|TaskNewClose", "-test.count=20",
            "-test.benchtime=20ms"], {}


def csharp_program(build, scratch, mcs):
    program = scratch / "calls.exe"
    quiet([mcs, "-langversion:7", f"-out:{program}", HERE / "Calls.cs", *sorted((ROOT / "bindings/csharp/Dllm").glob("*.cs"))])
    return ["mono", program], {}


def lua_program(build, scratch, host):
    place = build / "bindings/lua"
    return [host, HERE / "calls.lua"], {"LUA_PATH": f"{place}/lua/?.lua", "LUA_CPATH": f"{place}/lib/?.so"}


def programs():
    """(name, what it needs or None, the function that builds it, names of its lines or None)."""
    go = first("go", "/usr/local/go/bin/go")
    julia = subprocess.run([ROOT / "scripts/fetch-julia", "--have"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                           text=True, check=False).stdout.strip() or None
    yield "C", first("cc"), c_program, None
    yield "Rust", first("cargo"), rust_program, RUST
    yield "Julia", julia, lambda build, scratch, program: (
        [program, "--startup-file=no", f"--project={ROOT / 'bindings/julia'}", ROOT / "bindings/julia/examples/overhead.jl"],
        {"JULIA_DEPOT_PATH": f"{build / 'julia'}:", "JULIA_LOAD_PATH": "@:@stdlib"}), JULIA
    yield "Go, cgo", go, lambda build, scratch, program: go_program(build, scratch, program, "1"), GO
    yield "Go, purego", go, lambda build, scratch, program: go_program(build, scratch, program, "0"), GO
    yield "C# (Mono)", first("mcs"), csharp_program, None
    yield "Node", first("node"), lambda build, scratch, program: (
        [program, HERE / "calls.js"], {"NODE_PATH": str(build / "bindings/node/node_modules")}), None
    yield "LuaJIT", first("luajit"), lua_program, None
    yield "Lua 5.4", first("lua5.4"), lua_program, None
    yield "Python", sys.executable, lambda build, scratch, program: (
        [program, "-B", HERE / "calls.py"], {"PYTHONPATH": str(ROOT / "bindings/python")}), None


def measured(words, around, names):
    """({column: ns}, MiB at the peak) of one program."""
    process = subprocess.Popen(list(map(str, words)), env=around, stdout=subprocess.PIPE, text=True, cwd=ROOT / "bindings/go")
    lines = process.stdout.read().splitlines()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{words[0]}: exit status {process.returncode}\n" + "\n".join(lines))
    found = {}
    for line in lines:
        if names == GO:
            one = re.match(r"(Benchmark\w+?)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op", line)
        else:
            one = re.match(r"(.*?)\s+([\d.]+)(?: ns)?$", line)
        name = one and (names or {}).get(one[1], one[1])
        if name in COLUMNS:
            found[name] = min(float(one[2]), found.get(name, float("inf")))  # Go's are means of a round
    missing = [column for column in COLUMNS if column not in found]
    if missing:
        raise SystemExit(f"{words[0]} printed nothing for {missing}:\n" + "\n".join(lines))
    return found, usage.ru_maxrss / 1024


def main():
    build, chosen = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    around = dict(os.environ, DLLM_LIBRARY=str(build / "lib/libdllm.so"))
    print("| language | " + " | ".join(COLUMNS) + " | memory, MiB |")
    print("|---|" + "---|" * (len(COLUMNS) + 1))
    with tempfile.TemporaryDirectory() as folder:
        for language, program, make, names in programs():
            if chosen and language not in chosen:
                continue
            if program is None:
                print(f"{language} is not here", file=sys.stderr)
                continue
            words, more = make(build, pathlib.Path(folder), program)
            found, memory = measured(words, dict(around, **more), names)
            print(f"| {language} | " + " | ".join(f"{found[column]:.4g}" for column in COLUMNS) + f" | {memory:.0f} |", flush=True)


if __name__ == "__main__":
    main()
