"""test_rock.py FOLDER [--luarocks PROGRAM] HOST...: scripts/package rock, twice with equal bytes; installed as luarocks would,
into a clean prefix, it runs the scenario in each host (lua5.4, luajit) with the library that it brought. With --luarocks it is
installed by that program too, into a tree for each host. Then the installation without luarocks of the README, and the
README's programs."""
import argparse
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import textwrap
import zipfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from hub_cache import write_cache
from readme import every_program, write_corpus

ROOT = pathlib.Path(__file__).resolve().parents[3]
HERE = pathlib.Path(__file__).resolve().parent
README = (ROOT / "bindings/lua/README.md").read_text()
LOADED = ("require 'dllm'; for line in io.lines '/proc/self/maps' do "
          "if line:find 'libdllm' then print(line:match '/.*') break end end")


def output(*words):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def package(out):
    return pathlib.Path(output(str(ROOT / "scripts/package"), "rock", "--library", os.environ["DLLM_LIBRARY"],
                               "--out", str(out)))


def block(after):
    text = re.search(rf"{re.escape(after)}\n\n((?:    .*\n|\n)+)", README).group(1)
    return textwrap.dedent(text).strip() + "\n"


def install(rock, folder, flags):
    """The prefix into which the rock was installed."""
    with zipfile.ZipFile(rock) as archive:
        spec = next(name for name in archive.namelist() if name.endswith(".rockspec"))
        archive.extract(spec, folder)
        sources = io.BytesIO(archive.read(spec.replace(".rockspec", ".tar.gz")))
    with tarfile.open(fileobj=sources) as archive:
        archive.extractall(folder, filter="data") if sys.version_info >= (3, 12) else archive.extractall(folder)
    source = next(path for path in folder.iterdir() if path.is_dir())
    subprocess.run(["lua5.4", str(HERE / "install_rock.lua"), str(folder / spec), str(source), str(folder / "prefix")],
                   check=True, env=dict(os.environ, LUA_CFLAGS=flags))
    return folder / "prefix"


def install_by_luarocks(luarocks, rock, tree, host):
    """The variables with which the host finds the tree."""
    version, flags = ("5.1", ["LUA_INCDIR=" + output("pkg-config", "--variable=includedir", "luajit")]) \
        if "luajit" in host else ("5.4", [])
    tree.mkdir()  # also its home: no configuration of the user is read
    modules = luarocks.parents[1] / "share/lua" / version
    subprocess.run([host, str(luarocks), f"--lua-version={version}", f"--tree={tree}", "install", str(rock), *flags],
                   check=True, stdout=subprocess.DEVNULL,
                   env=dict(os.environ, HOME=str(tree), LUA_PATH=f"{modules}/?.lua;;"))
    return {"LUA_PATH": f"{tree}/share/lua/{version}/?.lua", "LUA_CPATH": f"{tree}/lib/lua/{version}/?.so"}


def run_scenario(host, prefix, places):
    """The exit status, with the library below the prefix alone."""
    clean = {name: value for name, value in os.environ.items() if name != "DLLM_LIBRARY"}
    clean.update(places)
    loaded = subprocess.run([host, "-e", LOADED], check=True, env=clean, stdout=subprocess.PIPE, text=True).stdout
    assert loaded.startswith(str(prefix)), f"not the library of the rock: {loaded}"
    return subprocess.run([sys.executable, "-B", str(ROOT / "tests/bindings/run_scenario.py"), host,
                           str(HERE / "scenario.lua")], check=False, env=clean).returncode


def run_readme(folder, hosts):
    """As typed, where bindings and scripts are those of the checkout."""
    folder.mkdir()
    for name in ("bindings", "scripts"):
        (folder / name).symlink_to(ROOT / name)
    write_corpus(folder)
    names = every_program("lua", "dllm for Lua")
    for name, text in names.items():
        (folder / f"{name}.lua").write_text(text)
    by_hand = block("never loads it. Without luarocks, for PUC Lua:")

    def run(host, chosen, **variables):
        commands = "".join(f"{host} {name}.lua\n" for name in chosen)
        subprocess.run(["sh", "-euc", by_hand + commands], check=True, cwd=folder, stdout=subprocess.DEVNULL,
                       env={**os.environ, **variables})

    for host in hosts:
        for made in ("runs", "cache"):
            shutil.rmtree(folder / made, ignore_errors=True)
        run(host, ["train"])
        run(host, [name for name in names if name != "train"], **write_cache(folder / "cache", folder / "runs" / "mine"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--luarocks", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("hosts", nargs="+")
    words = parser.parse_args()
    folder, hosts = words.folder, words.hosts
    shutil.rmtree(folder, ignore_errors=True)
    rock, again = package(folder / "first"), package(folder / "second")
    assert rock.read_bytes() == again.read_bytes(), "two builds of the rock differ"
    (folder / "rock").mkdir()
    prefix = install(rock, folder / "rock", output("pkg-config", "--cflags", "lua5.4", "libffi"))
    status = 0
    for host in hosts:
        status |= run_scenario(host, prefix, {"LUA_PATH": f"{prefix}/lua/?.lua", "LUA_CPATH": f"{prefix}/lib/?.so"})
        if words.luarocks:
            tree = folder / f"tree_{pathlib.Path(host).name}"
            status |= run_scenario(host, tree, install_by_luarocks(words.luarocks, rock, tree, host))
    run_readme(folder / "readme", hosts)
    return status


if __name__ == "__main__":
    sys.exit(main())
