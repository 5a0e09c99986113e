"""readme.py SCRATCH: runs the Rust blocks of bindings/rust/README.md as programs of a new package, and the example denoise.

They share the folder of the outputs of the other tests (CARGO_TARGET_DIR).
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

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
    train, decode = re.findall(r"```rust\n(.*?)```", (RUST / "README.md").read_text(), re.DOTALL)
    (scratch / "src" / "bin" / "train.rs").write_text(train)
    (scratch / "src" / "bin" / "decode.rs").write_text(decode)
    (scratch / "corpus.txt").write_text("".join(f"the cat sat by the old man number {i % 7}\n" for i in range(200)))
    assert len(train.splitlines()) <= 21 and len(decode.splitlines()) <= 12
    cargo = ("cargo", "run", "--quiet", "--offline")
    assert run(*cargo, "--bin", "train", folder=scratch).count("train_step") == 10
    assert run(*cargo, "--bin", "decode", folder=scratch).count("\n") >= 8
    os.environ["CARGO_TARGET_DIR"] = os.environ.get("CARGO_TARGET_DIR", str(scratch / "target"))
    shown = run(*cargo, "--locked", "--manifest-path", RUST / "Cargo.toml", "--example", "denoise", "--",
                scratch / "runs" / "first", "the cat", "--steps", "4", "--length", "8", folder=scratch).splitlines()
    assert [line.split()[0] for line in shown[:4]] == ["1", "2", "3", "4"] and len(shown) == 5, shown
    assert "." in shown[0] and "the cat" in shown[4]


if __name__ == "__main__":
    main()
