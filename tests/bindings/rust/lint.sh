#!/bin/sh
# lint.sh: rustfmt, clippy and rustdoc of the Rust crates and their tests, without a warning.
set -eu
cd "$(dirname "$0")"
export RUSTDOCFLAGS="-D warnings"
for package in ../../../bindings/rust/Cargo.toml Cargo.toml; do
  if cargo fmt --version > /dev/null 2>&1; then cargo fmt --check --all --manifest-path "$package"; else echo "skip: no rustfmt"; fi
  if cargo clippy --version > /dev/null 2>&1; then
    cargo clippy --quiet --offline --locked --all-targets --manifest-path "$package" -- -D warnings
  else
    echo "skip: no clippy"
  fi
done
cargo doc --quiet --offline --locked --no-deps --manifest-path ../../../bindings/rust/Cargo.toml
