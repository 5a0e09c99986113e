#!/usr/bin/env bash
# scripts/package: a tarball and Debian packages, unpacked into a clean folder and run; made twice, the bytes are equal.
#   packages_test.sh BUILD CMAKE SOURCE
set -uo pipefail
build=$1 cmake=$2 source=$3
work=$(mktemp -d -t dllm_packages_XXXXXX)
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
package() { "$source/scripts/package" "$1" --library "$2" --out "$work/$3"; }
same() { diff <(cd "$work/$1" && sha256sum ./*) <(cd "$work/$2" && sha256sum ./*); }

run_it() {  # run_it PROGRAM FOLDER: trains a tiny model there and decodes with it
  mkdir -p "$2"
  for i in $(seq 200); do echo "the cat sat on the mat and looked at the moon number $((i % 7))"; done >"$2/corpus.txt"
  (cd "$2" && "$1" train --data corpus.txt --rows line --out run --steps 2 --layers 1 --hidden 64 --vocab 300 --length 32 \
    --batch 2 --eval-every 0 && "$1" generate --model run --prompt "the cat" --steps 4 --length 8)
}

"$cmake" --install "$build" --prefix "$work/prefix" >/dev/null
library=$(realpath "$work/prefix/lib/libdllm.so")
check "a tarball is made" package tar "$library" tar
check "and made again" package tar "$library" tar_again
check "with equal bytes" same tar tar_again
mkdir "$work/unpacked"
check "it unpacks into one folder" tar -xzf "$work"/tar/*.tar.gz -C "$work/unpacked" --strip-components=1
check "its program runs" "$work/unpacked/bin/dllm" --version
# Which glibc the library that is shipped needs is checked where it is built: tests/install/fresh/packages.sh.
check "it says which glibc it needs" grep -q '^glibc GLIBC_2' "$work/unpacked/share/doc/dllm/needs.txt"
check "Debian packages of a library that is not a build's are refused" sh -c \
  "! '$source/scripts/package' deb --library '$library' --out '$work/no' 2>'$work/said' && grep -q 'Leave --library out' '$work/said'"
check "it trains and decodes" run_it "$work/unpacked/bin/dllm" "$work/tar_run"
check "its library is that of the tarball" sh -c "ldd '$work/unpacked/bin/dllm' | grep -q 'libdllm.so.1 => $work/unpacked/'"
check "a folder that is no prefix is refused" sh -c "! '$source/scripts/package' tar --library '$build/CMakeCache.txt' --out '$work/no'"
check "an unknown kind names the kinds" sh -c "'$source/scripts/package' tarr 2>&1 | grep -q 'deb.*tar'"

if command -v dpkg-shlibdeps >/dev/null && ! grep -q '^DLLM_SELF_CONTAINED:.*=ON' "$build/CMakeCache.txt"; then
  built=$(realpath "$build/lib/libdllm.so")
  check "Debian packages are made" package deb "$built" deb
  check "and made again" package deb "$built" deb_again
  check "with equal bytes" same deb deb_again
  check "three of them" sh -c "[ \$(ls '$work/deb' | wc -l) -eq 3 ]"
  for file in "$work"/deb/*.deb; do
    check "$(basename "$file") unpacks" dpkg-deb -x "$file" "$work/root"
  done
  check "the library needs libc6 of a known version" sh -c "dpkg-deb -f '$work'/deb/libdllm1_*.deb Depends | grep -q 'libc6 (>='"
  check "the program runs" env LD_LIBRARY_PATH="$work/root/usr/lib" "$work/root/usr/bin/dllm" --version
  check "it trains and decodes" env LD_LIBRARY_PATH="$work/root/usr/lib" bash -c \
    "$(declare -f run_it); run_it '$work/root/usr/bin/dllm' '$work/deb_run'"
  check "the manual page is compressed" test -s "$work/root/usr/share/man/man1/dllm.1.gz"
  echo 'int main(void) { return dllm_abi_version() != 1; }' | cat <(echo '#include <dllm/dllm.h>') - >"$work/app.c"
  check "a C program builds against it" cc -std=c99 -Wall -Werror -I"$work/root/usr/include" "$work/app.c" -L"$work/root/usr/lib" \
    -ldllm -Wl,-rpath,"$work/root/usr/lib" -o "$work/app"
  check "and runs" "$work/app"
else
  echo "skip - no dpkg-shlibdeps, or a self-contained build: no Debian packages"
fi

echo "# $failures failures"
[ "$failures" -eq 0 ]
