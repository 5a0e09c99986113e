#!/usr/bin/env bash
# Frozen releases against today's headers and library, with abidiff where it is installed: types, symbols, their version, the
# SONAME. A client that is built from a release's own header runs with today's library, and so does the program that was
# compiled at the release and kept. Then that changes are seen.
#   frozen_test.sh ROOT LUA_TOOL LIBRARY CC
set -uo pipefail
root=$1 lua_tool=$2 library=$3 cc=$4
export DLLM_TOOLS=$root/scripts/tools
work=$(mktemp -d -t dllm_frozen_XXXXXX)
trap 'rm -rf "$work"' EXIT
failures=0
check() {  # check WHAT COMMAND...
  local what=$1
  shift
  if "$@" >"$work/log" 2>&1; then echo "ok - $what"; else
    echo "not ok - $what"
    failures=$((failures + 1))
    tail -15 "$work/log" | sed 's/^/#   /'
  fi
}
skeleton() {  # skeleton NAME INCLUDE MAP: FOLDER/libdllm.so of FOLDER/skeleton.c
  "$cc" -std=c99 -w -g -fPIC -shared -I "$2" "$work/$1/skeleton.c" -Wl,-soname,libdllm.so.1 \
    -Wl,--version-script="$3" -o "$work/$1/libdllm.so"
}
release() {  # release NAME FILE: the skeleton of a frozen file
  "$lua_tool" "$DLLM_TOOLS/skeleton.lua" "$root" "$2" "$work/$1" && skeleton "$1" "$work/$1" "$work/$1/skeleton.map"
}
compatible() { abidiff --no-show-locs --no-added-syms "$1" "$2"; }  # a library may have more than the release
# The bits of its status: 1 and 2 errors, 4 a change, 8 one that breaks clients.
incompatible() {
  compatible "$1" "$2"
  [ $(($? & 7)) -eq 4 ]
}

mkdir "$work/today"
check "the headers of today define every function of the manifest" sh -c \
  "'$lua_tool' '$DLLM_TOOLS/skeleton.lua' '$root' today '$work/today'"
check "as a library" skeleton today "$root/include" "$root/abi/dllm.map"

for file in "$root"/abi/frozen/*.txt; do
  name=$(basename "$file" .txt)
  check "$name: a library of its types" release "$name" "$file"
  check "$name: its header is C99 alone" "$cc" -std=c99 -Wall -Wextra -Wpedantic -Werror -fsyntax-only "$work/$name/dllm/dllm.h"
  check "$name: a client is built with its header" "$cc" -std=c99 -Wall -Werror -D_XOPEN_SOURCE=700 -I "$work/$name" \
    -I "$root/tests/api" "$root"/tests/api/{client,check,world}.c "$work/$name/libdllm.so" -lm -o "$work/$name/client"
  check "$name: and runs with today's library" env LD_LIBRARY_PATH="$(dirname "$library")" "$work/$name/client"
  kept=${file%.txt}.client.$(uname -m).gz
  if [ -e "$kept" ]; then
    gunzip -c "$kept" >"$work/$name/kept" && chmod +x "$work/$name/kept"
    check "$name: the client that was compiled then runs with today's library" \
      env LD_LIBRARY_PATH="$(dirname "$library")" "$work/$name/kept"
  else
    echo "skip - $name: no client was kept for $(uname -m)"
  fi
  if command -v abidiff >/dev/null; then
    check "$name: abidiff finds the same types today" compatible "$work/$name/libdllm.so" "$work/today/libdllm.so"
    check "$name: and its symbols in today's library" compatible "$work/$name/libdllm.so" "$library"
  fi
done

changed() {  # changed WHAT SED_SCRIPT: a release that differs from 0.1 is no longer compatible with today
  sed "$2" "$root/abi/frozen/0.1.txt" >"$work/changed.txt"
  check "$1" release changed "$work/changed.txt"
  check "... is seen by abidiff" incompatible "$work/changed/libdllm.so" "${3:-$work/today/libdllm.so}"
}
if command -v abidiff >/dev/null; then
  changed "a parameter of another width" 's/^\(dllm_status dllm_decoder_start(.*\)int64_t, int64_t/\1int32_t, int64_t/'
  changed "a callback of another type" 's/^typedef int32_t (\*dllm_event_fn)/typedef int64_t (*dllm_event_fn)/'
  changed "another result" 's/^int32_t dllm_abi_version/int64_t dllm_abi_version/'
  changed "a function that is not there today" 's/dllm_model_load(/dllm_model_fetch(/' "$library"
else
  echo "skip - no abidiff (Debian: abigail-tools)"
fi

# The same in the text of a release, and a deprecation.
mkdir -p "$work/copy/abi/frozen" "$work/copy/include"
cp -r "$root/include/dllm" "$work/copy/include"
cp "$root/abi/frozen/0.1.txt" "$work/copy/abi/frozen"
sed '/"name": "dllm_answer_new"/,/"state"/s/"state": "stable",/& "deprecated": "2026-12-01: use dllm_batch_set",/' "$root/abi/manifest.json" \
  >"$work/copy/abi/manifest.json"
frozen() { "$lua_tool" "$DLLM_TOOLS/frozen.lua" "$work/copy" "$@"; }
check "a deprecated function is still one" frozen
check "the next release" frozen 0.2
check "has the day of the deprecation" grep -q '^# deprecated 2026-12-01: dllm_answer_new, use dllm_batch_set$' \
  "$work/copy/abi/frozen/0.2.txt"
check "and its own" grep -q "^# released $(date +%Y-%m)" "$work/copy/abi/frozen/0.2.txt"
sed -i 's/typedef void (\*dllm_free_fn)/typedef int32_t (*dllm_free_fn)/' "$work/copy/include/dllm/host.h"
check "a changed type is named" sh -c "! '$lua_tool' '$DLLM_TOOLS/frozen.lua' '$work/copy' 2>&1 | grep -q 'are as they were'"
refused() { { frozen || true; } 2>&1 | grep -q "today: typedef int32_t (\*dllm_free_fn)"; }
check "with its form of today" refused

echo "# $failures failures"
[ "$failures" -eq 0 ]
