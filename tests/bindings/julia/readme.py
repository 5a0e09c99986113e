"""readme.py JULIA SCRATCH: runs the Julia blocks of bindings/julia/README.md in a folder, and the examples."""
import pathlib
import re
import shutil
import subprocess
import sys

PACKAGE = pathlib.Path(__file__).resolve().parents[3] / "bindings" / "julia"


def run(julia, folder, file, *words):
    command = [julia, "--startup-file=no", f"--project={PACKAGE}", str(file), *words]
    ran = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
    print(ran.stdout, end="")
    if ran.returncode:
        sys.exit(f"{' '.join(command)}: exit status {ran.returncode}")
    return ran.stdout


def main():
    julia, scratch = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    (scratch / "corpus.txt").write_text("".join(f"the cat sat by the old man number {i % 7}\n" for i in range(200)))
    train, decode = re.findall(r"```julia\n(.*?)```", (PACKAGE / "README.md").read_text(), re.DOTALL)
    assert len(train.splitlines()) <= 15 and len(decode.splitlines()) <= 10
    (scratch / "train.jl").write_text(train)
    (scratch / "decode.jl").write_text(decode)
    assert run(julia, scratch, scratch / "train.jl").count("loss") == 10
    assert run(julia, scratch, scratch / "decode.jl").count("positions are open") == 8
    run(julia, scratch, PACKAGE / "examples" / "loss_curve.jl", "corpus.txt", "curve.svg", "60")
    assert (scratch / "curve.svg").read_text().count("<polyline") == 2


if __name__ == "__main__":
    main()
