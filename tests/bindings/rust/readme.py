"""readme.py SCRATCH: runs the Rust blocks of bindings/rust/README.md as programs of a new package, and the examples.

They share the folder of the outputs of the other tests (CARGO_TARGET_DIR).
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from hub_cache import write_cache

ROOT = pathlib.Path(__file__).resolve().parents[3]
RUST = ROOT / "bindings" / "rust"


def run(*words, folder):
    ran = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
    print(ran.stdout, end="")
    if ran.returncode:
        sys.exit(f"{' '.join(map(str, words))}: exit status {ran.returncode}")
    return ran.stdout


def main():
    scratch = pathlib.Path(sys.argv[1]).resolve()
    shutil.rmtree(scratch, ignore_errors=True)
    (scratch / "src" / "bin").mkdir(parents=True)
    (scratch / "Cargo.toml").write_text(
        '[package]\nname = "readme"\nversion = "0.2.0"\nedition = "2024"\n\n'
        f'[dependencies]\ndllm = {{ path = "{RUST / "dllm"}" }}\n\n[workspace]\n')
    generate, queue, hub, train, decode = re.findall(r"```rust\n(.*?)```", (RUST / "README.md").read_text(), re.DOTALL)
    (scratch / "src" / "bin" / "generate.rs").write_text(generate)
    (scratch / "src" / "bin" / "queue.rs").write_text(queue)
    (scratch / "src" / "bin" / "hub.rs").write_text(hub)
    (scratch / "src" / "bin" / "train.rs").write_text(train)
    (scratch / "src" / "bin" / "decode.rs").write_text(decode)
    (scratch / "corpus.txt").write_text("".join(f"the cat sat by the old man number {i % 7}\n" for i in range(200)))
    assert len(generate.splitlines()) <= 8 and len(train.splitlines()) <= 21 and len(decode.splitlines()) <= 12
    cargo = ("cargo", "run", "--quiet", "--offline")
    assert run(*cargo, "--bin", "train", folder=scratch).count("train_step") == 10
    assert run(*cargo, "--bin", "generate", folder=scratch)
    assert run(*cargo, "--bin", "queue", folder=scratch)
    assert run(*cargo, "--bin", "decode", folder=scratch).count("\n") >= 8
    os.environ.update(write_cache(scratch / "cache", scratch / "runs" / "first"))
    assert "Qwen/Qwen3-0.6B" in run(*cargo, "--bin", "hub", folder=scratch)
    os.environ["CARGO_TARGET_DIR"] = os.environ.get("CARGO_TARGET_DIR", str(scratch / "target"))
    texts = run(*cargo, "--locked", "--manifest-path", RUST / "Cargo.toml", "--example", "generate", "--",
                ROOT / "scripts" / "recipes" / "stories.gguf", folder=scratch)
    for part in ("generate", "conversation", "infill", "stream", "batch", "stop", "cancel", "error", "policy"):
        assert f"{part}: " in texts, part
    shown = run(*cargo, "--locked", "--manifest-path", RUST / "Cargo.toml", "--example", "denoise", "--",
                scratch / "runs" / "first", "the cat", "--steps", "4", "--length", "8", folder=scratch).splitlines()
    assert [line.split()[0] for line in shown[:4]] == ["1", "2", "3", "4"] and len(shown) == 5, shown
    assert "." in shown[0] and "the cat" in shown[4]


if __name__ == "__main__":
    main()
