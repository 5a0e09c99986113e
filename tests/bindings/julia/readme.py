"""readme.py JULIA SCRATCH: runs the Julia blocks of bindings/julia/README.md in a folder, and the examples."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from hub_cache import write_cache

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
    generate, examples, queue, hub, train, decode = re.findall(r"```julia\n(.*?)```", (PACKAGE / "README.md").read_text(), re.DOTALL)
    assert len(generate.splitlines()) <= 5 and len(train.splitlines()) <= 15 and len(decode.splitlines()) <= 10
    (scratch / "train.jl").write_text(train)
    (scratch / "decode.jl").write_text(decode)
    (scratch / "generate.jl").write_text(generate)
    (scratch / "examples.jl").write_text(examples)
    (scratch / "queue.jl").write_text(queue)
    (scratch / "hub.jl").write_text(hub)
    shutil.copy(PACKAGE.parents[1] / "scripts" / "recipes" / "stories.gguf", scratch)
    assert run(julia, scratch, scratch / "train.jl").count("loss") == 10
    assert run(julia, scratch, scratch / "generate.jl")
    assert run(julia, scratch, scratch / "queue.jl")
    os.environ.update(write_cache(scratch / "cache", scratch / "runs" / "first"))
    assert "Qwen/Qwen3-0.6B" in run(julia, scratch, scratch / "hub.jl")
    shown = run(julia, scratch, scratch / "examples.jl")
    assert all(part in shown for part in (" open: ", "stop_text", "cancelled", "temperature"))
    assert run(julia, scratch, scratch / "decode.jl").count("positions are open") == 8
    run(julia, scratch, PACKAGE / "examples" / "loss_curve.jl", "corpus.txt", "curve.svg", "60")
    assert (scratch / "curve.svg").read_text().count("<polyline") == 2


if __name__ == "__main__":
    main()
