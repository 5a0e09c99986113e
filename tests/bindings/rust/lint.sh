#!/bin/sh
# lint.sh: rustfmt, clippy and rustdoc of the Rust crates and their tests, without a warning.
set -eu
cd "$(dirname "$0")"
export RUSTDOCFLAGS="-D warnings"
crates=../../../bindings/rust/Cargo.toml
for package in "$crates" Cargo.toml; do
  features=
  if [ "$package" = "$crates" ]; then features=--features=dllm/stream; fi
  if cargo fmt --version > /dev/null 2>&1; then cargo fmt --check --all --manifest-path "$package"; else echo "skip: no rustfmt"; fi
  if cargo clippy --version > /dev/null 2>&1; then
    cargo clippy --quiet --offline --locked --all-targets $features --manifest-path "$package" -- -D warnings
  else
    echo "skip: no clippy"
  fi
done
cargo doc --quiet --offline --locked --no-deps --features=dllm/stream --manifest-path "$crates"
