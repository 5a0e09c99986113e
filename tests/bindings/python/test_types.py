"""test_types.py FOLDER: mypy --strict over the package, for every Python that it supports, and over a program that uses
it. mypy is this Python's, or comes from PyPI into FOLDER; exit status 77 where neither can be had."""
import importlib.util
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = HERE.parents[2] / "bindings/python"
MYPY = "mypy==1.18.2"
VERSIONS = ("3.9", "3.10", "3.11", "3.12", "3.13")

# What callers get is typed: each line with a comment must be refused for it.
PROGRAM = """
import dllm

async def work(model: dllm.Model, tokenizer: dllm.Tokenizer, trainer: dllm.Trainer, loader: dllm.Loader) -> str:
    with dllm.Decoder(model, steps=8) as decoder:
        decoder.start(tokenizer.encode("the"), seed=1)
        async for active in decoder.steps():
            print(active + 1)
        for left in decoder.steps():
            print(left + 1)
        loss: float = await dllm.run_async(trainer.eval, loader, 4)
        await dllm.run_async(trainer.run, loader, 10, lambda event: print(event["loss"], loss))
        return tokenizer.decode(decoder.ids())
"""
WRONG = PROGRAM.replace('tokenizer.encode("the")', "tokenizer.encode(7)").replace("-> str", "-> int")


def python_with_mypy(folder):
    if importlib.util.find_spec("mypy"):
        return sys.executable
    python = folder / "venv/bin/python"
    if not importlib.util.find_spec("ensurepip"):
        return None
    if not (folder / "venv/bin/mypy").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
        if subprocess.run([str(python), "-m", "pip", "install", "-q", MYPY], check=False,
                          stderr=subprocess.DEVNULL).returncode:
            return None
    return str(python)


def mypy(python, folder, *words):
    run = subprocess.run([python, "-m", "mypy", "--strict", "--cache-dir", str(folder / "cache"),
                          "--config-file", str(PACKAGE / "pyproject.toml"), *words], check=False,
                         stdout=subprocess.PIPE, text=True, cwd=PACKAGE, env=dict(os.environ, MYPYPATH=str(PACKAGE)))
    return run.returncode, run.stdout


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    python = python_with_mypy(folder)
    if python is None:
        print("mypy is not installed and cannot be fetched: types are not checked")
        return 77
    status = 0
    for version in VERSIONS:
        failed, said = mypy(python, folder, "--python-version", version, "-p", "dllm")
        print(f"Python {version}: {said}", end="")
        status |= failed
    for name, text, wanted in (("program.py", PROGRAM, 0), ("wrong.py", WRONG, 1)):
        (folder / name).write_text(text)
        found, said = mypy(python, folder, str(folder / name))
        if found != wanted or said.count(": error:") != 2 * wanted:
            print(f"{name}: mypy exits with {found}, wanted {wanted}\n{said}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
