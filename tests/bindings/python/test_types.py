"""test_types.py FOLDER: mypy --strict over the package, for every Python that it supports, and over a program that uses
it. mypy is this Python's, or comes from PyPI into FOLDER; exit status 77 where neither can be had."""
import importlib.util
import os
import pathlib
import re
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

# Settings are typed: in each copy of this function with one mistake in it, mypy finds an error.
SETTINGS = """
def work(path: str, trained: dllm.Model, objective: dllm.Objective) -> str:
    on: dllm.EngineSettings = {"threads": 2, "pjrt.device": 0}
    model = dllm.load(path, engine=on, dtype="q8_0", policy="threshold", slots=8)
    request: dllm.RequestSettings = {"length": 8, "stop": ["."], "temperature": 0.5, "seed": None}
    answer = model.generate("the", **request)
    chosen = model.infill("the <mask:3>", policy="threshold", threshold=0.5)
    chat = model.generate([{"role": "user", "content": "the"}], tools=[{"name": "f"}])
    number = model.add(infill="the <mask:2>", steps=2)
    for piece in model.stream("the", length=9):
        print(piece.text, piece.canvas, piece.open + piece.step)
    both = [str(each) for each in model.batch(["the", "cat"], seed=1)]
    decoder = dllm.Decoder(trained, policy="dream", alg_temp=0.1)
    decoder.add([1, 2], stop=[3])
    dllm.Trainer(trained, objective, optimizer="muon", lr=1e-3)
    return answer.text + str(chat) + answer.finish + chosen.whole + both[number] + "".join(answer.holes)
"""
MISTAKES = (("threads", "thread"), ("pjrt.device", "pjrt.devise"), ("q8_0", "q8"), ("slots=8", "slot=8"),
            ("length=9", "lenght=9"), ('"temperature": 0.5', '"temprature": 0.5'), ("threshold=0.5", 'threshold="0.5"'),
            ("steps=2", 'steps="2"'), ('infill="the', 'infil="the'), ("seed=1", "seed=[1]"), ("alg_temp", "alg_tmp"),
            ("stop=[3]", "stop=3"),
            ('["."]', '"."'), ("muon", "moon"), ("lr=1e-3", "learning_rate=1e-3"), ("answer.finish", "answer.steps"))


def with_mistakes():
    copies = []
    for right, wrong in MISTAKES:
        assert SETTINGS.count(right) == 1, f"{right} is not once in the function"
        copies.append(SETTINGS.replace(right, wrong).replace("def work", f"def work{len(copies)}"))
    return "import dllm\n" + "".join(copies)


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
    return status | check_settings(python, folder)


def check_settings(python, folder):
    right, wrong = folder / "settings.py", folder / "wrong_settings.py"
    right.write_text("import dllm\n" + SETTINGS)
    wrong.write_text(with_mistakes())
    found, said = mypy(python, folder, str(right))
    if found:
        print(said)
    lines = {int(line) for line in re.findall(r":(\d+): error:", mypy(python, folder, str(wrong))[1])}
    size = SETTINGS.count("\n")
    for at, (_, mistake) in enumerate(MISTAKES):
        if not lines & set(range(2 + at * size, 2 + (at + 1) * size)):
            print(f"mypy accepts {mistake}")
            found = 1
    return found


if __name__ == "__main__":
    sys.exit(main())
