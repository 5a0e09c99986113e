"""readme.py SCRATCH BUILD CMAKE TEST: the commands of bindings/godot/README.md, with an installed library and a clean game,
then TEST (extension_test) with the extension that they put there."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]


def main():
    scratch, build, test = (pathlib.Path(path).resolve() for path in (sys.argv[1], sys.argv[2], sys.argv[4]))
    shutil.rmtree(scratch, ignore_errors=True)
    (scratch / "build").mkdir(parents=True)
    for folder in ("bindings", "scripts", "build/_deps"):
        (scratch / folder).symlink_to(ROOT / folder)
    prefix, game = scratch / "prefix", scratch / "game"
    subprocess.run([sys.argv[3], "--install", build, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL)
    page = (ROOT / "bindings" / "godot" / "README.md").read_text()
    [commands] = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    around = {name: value for name, value in os.environ.items() if name not in ("LD_LIBRARY_PATH", "DLLM_LIBRARY")}
    subprocess.run(["sh", "-euc", commands], cwd=scratch, check=True, env=dict(around, PREFIX=str(prefix), GAME=str(game)))
    addon = game / "addons" / "dllm"
    described = (addon / "dllm.gdextension").read_text()
    for file in set(re.findall(r'"(lib\w+\.so[.\d]*)"', described)):
        assert (addon / file).exists(), f"dllm.gdextension names {file}, which is not in {sorted(addon.iterdir())}"
    shutil.rmtree(prefix)
    linked = subprocess.run(["ldd", addon / "libdllm_godot.so"], check=True, stdout=subprocess.PIPE, text=True, env=around).stdout
    assert f"libdllm.so.1 => {addon}" in linked, linked
    subprocess.run([test, addon / "libdllm_godot.so", scratch / "model", ROOT / "bindings/godot/README.md"], check=True)


if __name__ == "__main__":
    main()
