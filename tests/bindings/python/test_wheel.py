"""test_wheel.py FOLDER: scripts/package wheel, twice with equal bytes; installed into a clean environment it runs the
scenario with the library that it brought. Exit status 77 where this Python makes no environments."""
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
LOADED = "import dllm; print(*{line.split()[-1] for line in open('/proc/self/maps') if 'libdllm' in line})"


def package(out):
    run = subprocess.run([str(ROOT / "scripts/package"), "wheel", "--library", os.environ["DLLM_LIBRARY"],
                          "--out", str(out)], check=True, stdout=subprocess.PIPE, text=True)
    return pathlib.Path(run.stdout.strip())


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    if not importlib.util.find_spec("ensurepip"):
        print(f"{sys.executable} has no ensurepip (Debian: python3-venv): the wheel is not installed")
        return 77
    shutil.rmtree(folder, ignore_errors=True)
    wheel, again = package(folder / "first"), package(folder / "second")
    assert wheel.name == again.name
    assert wheel.read_bytes() == again.read_bytes(), "two builds of the wheel differ"
    assert re.match(r"dllm-\d+\.\d+\.\d+-py3-none-(manylinux_2_\d+|linux)_\w+\.whl$", wheel.name), wheel.name

    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "DLLM_LIBRARY")}
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    python = str(folder / "venv/bin/python")
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-index", "--disable-pip-version-check", str(wheel)],
                   check=True, env=clean)
    loaded = subprocess.run([python, "-B", "-c", LOADED], check=True, stdout=subprocess.PIPE, text=True, env=clean,
                            cwd=folder).stdout.strip()
    assert loaded.startswith(str(folder / "venv")), f"not the library of the wheel: {loaded}"
    return subprocess.run([sys.executable, "-B", str(ROOT / "tests/bindings/run_scenario.py"), python, "-B",
                           str(ROOT / "tests/bindings/python/scenario.py")], check=False, env=clean).returncode


if __name__ == "__main__":
    sys.exit(main())
