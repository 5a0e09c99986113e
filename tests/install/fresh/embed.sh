#!/usr/bin/env bash
# In a clone that ./scripts/quickstart has built: README's blocks for the shell as written, then the library installed and found
# by pkg-config and CMake as docs/guide/embed.md has it, then taken in by FetchContent.   embed.sh
# It installs into /usr/local: scripts/fresh-root runs it in a root of its own.
set -euo pipefail
cd "$(dirname "$0")/../../.."
checkout=$PWD
work=/tmp/dllm_embed # always there: the compiler cache knows files of CMake by their path
rm -rf "$work"
mkdir "$work"
trap 'rm -rf "$work"' EXIT
step() { echo "--- $*"; }

# block TAG: the fenced blocks of README.md that begin with ```TAG
block() { awk -v open="\`\`\`$1" '$0 == "```" {on = 0} on; $0 == open {on = 1}' README.md; }

step "README: the shipped model, and the program in C"
block "c first.c" >first.c
block sh >"$work/readme.sh"
grep -q first.c "$work/readme.sh" # the blocks were found
sh -eux "$work/readme.sh"
mv first.c "$work/app.c"
rm first

step "cmake --install build/release --prefix /usr/local"
cmake --install build/release --prefix /usr/local >"$work/install.log"
ldconfig
cd "$work"
# shellcheck disable=SC2046
cc app.c $(pkg-config --cflags --libs dllm) -o app
./app "$checkout/runs/quickstart"

step "find_package(dllm), with the generator that is there"
mkdir project
cat >project/CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.16)
project(app C)
find_package(dllm REQUIRED)
add_executable(app ../app.c)
target_link_libraries(app PRIVATE dllm::dllm)
CMAKE
cmake -G Ninja -S project -B found >"$work/configure.log"
cmake --build found
found/app "$checkout/runs/quickstart"
dllm --version

step "FetchContent"
mkdir whole
cat >whole/CMakeLists.txt <<CMAKE
cmake_minimum_required(VERSION 3.25)
project(app C CXX)
include(FetchContent)
FetchContent_Declare(dllm GIT_REPOSITORY "file://$checkout" GIT_TAG $(git -C "$checkout" rev-parse HEAD))
FetchContent_MakeAvailable(dllm)
add_executable(app ../app.c)
target_link_libraries(app PRIVATE dllm::dllm)
CMAKE
cmake -G Ninja -S whole -B fetched -DDLLM_PCH=ON >"$work/configure.log" || { cat "$work/configure.log"; exit 1; }
# The parent's kind of build is its own choice; dllm's own sources are optimized when it has none.
grep -qx 'CMAKE_BUILD_TYPE:STRING=' fetched/CMakeCache.txt
cmake --build fetched --target app
fetched/app "$checkout/runs/quickstart"
