#!/usr/bin/env bash
# Builds llama.cpp as a peer of bench/table, under build/peers/llama.
#   bench/peers/llama.sh [JOBS]
# The npm package node-llama-cpp holds its sources as a git bundle; npm pack takes it from the registry that npm is
# configured with. About 10 minutes on two processors. Prints the path of llama-bench last.
set -euo pipefail
case "${1:-}" in -h | --help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit ;; esac
jobs=${1:-$(nproc)}
package=node-llama-cpp@3.22.1
peers=$(cd "$(dirname "$0")/../.." && pwd)/build/peers
folder=$peers/llama
program=$folder/build/bin/llama-bench
server=$folder/build/bin/llama-server
if [ ! -x "$program" ] || [ ! -x "$server" ]; then
  for need in npm git cmake; do
    command -v "$need" >/dev/null || { echo "bench/peers/llama.sh: $need is not installed" >&2; exit 2; }
  done
  mkdir -p "$peers"
  cd "$peers"
  archive=node-llama-cpp-${package##*@}.tgz
  [ -f "$archive" ] || npm pack --silent "$package" >/dev/null
  if [ ! -d "$folder" ]; then
    tar xzf "$archive" package/llama/gitRelease.bundle
    git -c advice.detachedHead=false clone --quiet package/llama/gitRelease.bundle llama
    rm -r package
  fi
  # Without AMX: its product of q8_0 there ends with a segmentation fault, and its f32 and bf16 do not use it.
  no_amx="-mno-amx-int8 -mno-amx-tile"
  cmake -G Ninja -S llama -B llama/build -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DLLAMA_CURL=OFF \
    -DCMAKE_C_FLAGS="$no_amx" -DCMAKE_CXX_FLAGS="$no_amx" -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_SERVER=ON -DBUILD_SHARED_LIBS=OFF >llama-configure.log 2>&1
  cmake --build llama/build -j "$jobs" --target llama-bench llama-server llama-diffusion-cli >llama-build.log 2>&1
fi
echo "$program"
