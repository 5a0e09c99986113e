#!/usr/bin/env bash
# Keeps the program that a user of a release has: a client of its header and its library, compiled once and never again.
#   keep_client.sh ROOT LUA_TOOL CC RELEASE    writes abi/frozen/RELEASE.client.MACHINE.gz
set -euo pipefail
root=$1 lua_tool=$2 cc=$3 release=$4
kept=$root/abi/frozen/$release.client.$(uname -m).gz
[ ! -e "$kept" ] || { echo "$kept is there already; a client is kept once" >&2; exit 1; }
work=$(mktemp -d -t dllm_client_XXXXXX)
trap 'rm -rf "$work"' EXIT
DLLM_TOOLS=$root/scripts/tools "$lua_tool" "$root/scripts/tools/skeleton.lua" "$root" "$release" "$work"
"$cc" -std=c99 -w -fPIC -shared -I "$work" "$work/skeleton.c" -Wl,-soname,libdllm.so.1 \
  -Wl,--version-script="$work/skeleton.map" -o "$work/libdllm.so"
(cd "$root" && "$cc" -std=c99 -O2 -s -D_XOPEN_SOURCE=700 -I "$work" -I tests/api tests/api/{client,check,world}.c \
  "$work/libdllm.so" -lm -o "$work/client")
gzip -9nc "$work/client" >"$kept"
echo "$kept"
