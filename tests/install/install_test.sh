#!/usr/bin/env bash
# What is installed can be used by others: pkg-config, CMake, Python, man, bash; from any place.
#   install_test.sh BUILD CMAKE
set -uo pipefail
build=$1 cmake=$2
work=$(mktemp -d -t dllm_install_XXXXXX)
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

check "cmake --install" "$cmake" --install "$build" --prefix "$work/first"
# Nothing that was installed names the place where it was installed.
mv "$work/first" "$work/prefix"
prefix=$work/prefix
for file in bin/dllm lib/libdllm.so include/dllm/dllm.h lib/pkgconfig/dllm.pc lib/cmake/dllm/dllmConfig.cmake \
  share/doc/dllm/LICENSE share/dllm/recipes/infill.lua share/man/man1/dllm.1 share/bash-completion/completions/dllm \
  share/zsh/vendor-completions/_dllm share/fish/vendor_completions.d/dllm.fish; do
  check "$file is there" test -s "$prefix/$file"
done
at_once() {  # three installations of one build at the same time, each whole
  local round place
  for round in 1 2 3 4; do
    for place in a b c; do "$cmake" --install "$build" --prefix "$work/$place" >/dev/null & done
    wait
    for place in a b c; do diff -r "$prefix/share" "$work/$place/share" || return 1; done
  done
}
check "installations at the same time are whole" at_once
check "the program runs" "$prefix/bin/dllm" --version
check "the program finds the installed library" sh -c "ldd '$prefix/bin/dllm' | grep -q 'libdllm.so.1 => $prefix/'"

cat >"$work/app.c" <<'C'
#include <dllm/dllm.h>
#include <stdio.h>
int main(void) {
  dllm_engine *engine;
  dllm_error *err = dllm_error_new();
  if (dllm_engine_new(NULL, &engine, err)) return 1;
  dllm_engine_release(engine);
  dllm_error_release(err);
  return puts(dllm_version()) < 0;
}
C
flags() { PKG_CONFIG_PATH="$prefix/lib/pkgconfig" pkg-config "$@" dllm; }
check "pkg-config finds it" flags --modversion
check "a C program builds with pkg-config" cc -std=c99 -Wall -Werror "$work/app.c" $(flags --cflags --libs) \
  -Wl,-rpath,"$prefix/lib" -o "$work/app"
check "and runs" "$work/app"

cat >"$work/app.cpp" <<'CPP'
#include <dllm/dllm.hpp>
int main() { return dllm::attempt([] { return dllm::Engine({{"threads", 1}}).devices(); }).value().size() == 1 ? 0 : 1; }
CPP
check "a C++ program builds with pkg-config" c++ -std=c++20 -Wall -Wextra -Werror "$work/app.cpp" \
  $(flags --cflags --libs) -Wl,-rpath,"$prefix/lib" -o "$work/app_cpp"
check "and runs" "$work/app_cpp"

mkdir "$work/project"
cat >"$work/project/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.16)
project(app C CXX)
find_package(dllm 0.2 REQUIRED)
add_executable(app ../app.c)
target_link_libraries(app PRIVATE dllm::dllm)
add_executable(app_cpp ../app.cpp) # the compiler's own default may be C++17
target_link_libraries(app_cpp PRIVATE dllm::cpp)
CMAKE
# The generator of this build is there; that cmake's own choice, make, is there too is not said.
generator=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$build/CMakeCache.txt")
check "find_package(dllm)" "$cmake" -G "$generator" -S "$work/project" -B "$work/project/build" -DCMAKE_PREFIX_PATH="$prefix"
check "a CMake project builds" "$cmake" --build "$work/project/build"
check "and runs" "$work/project/build/app"
check "its C++ program too" "$work/project/build/app_cpp"
check "C++17 is refused in one line" sh -c "
  c++ -std=c++17 -fsyntax-only '$work/app.cpp' -I'$prefix/include' 2>&1 | grep -q 'needs C++20'"

if command -v python3 >/dev/null; then
  check "Python finds the installed library" env -u DLLM_LIBRARY PYTHONPATH="$prefix/share/dllm/python" \
    python3 -B -c 'import dllm; assert "low_confidence" in dllm.names("policy")'
fi
check "the manual page has every command" sh -c "
  for command in train generate infill chat inspect verify trajectories anchors; do
    grep -q \"^.SS dllm \$command\$\" '$prefix/share/man/man1/dllm.1' || exit 1
  done"
complete() {  # complete WORD... : what bash offers for the last word
  bash -c 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _dllm; echo "${COMPREPLY[@]}"' \
    "$prefix/share/bash-completion/completions/dllm" "$@"
}
check "bash completes commands" sh -c "[ '$(complete dllm gen)' = generate ]"
check "bash completes new commands" sh -c "[ '$(complete dllm traj) $(complete dllm anch)' = 'trajectories anchors' ]"
check "bash completes options" sh -c "[ '$(complete dllm generate --tempe)' = --temperature ]"
if command -v zsh >/dev/null; then
  check "zsh reads its completion" zsh -n "$prefix/share/zsh/vendor-completions/_dllm"
fi
if command -v fish >/dev/null; then
  check "fish reads its completion" fish -n "$prefix/share/fish/vendor_completions.d/dllm.fish"
fi

echo "# $failures failures"
[ "$failures" -eq 0 ]
