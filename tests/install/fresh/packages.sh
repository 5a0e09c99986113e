#!/usr/bin/env bash
# scripts/package of each kind in a clone, as docs/guide/embed.md has it.   packages.sh
# The tarball and the wheel need the glibc that the guide says, and no library that a system may lack.
set -euo pipefail
cd "$(dirname "$0")/../../.."
step() { echo "--- $*"; }

rm -rf build/packages
kinds=(tar deb wheel npm rock nuget go)
for kind in "${kinds[@]}"; do
  step "scripts/package $kind"
  made=$(scripts/package "$kind")
  echo "$made"
  for file in $made; do test -s "$file"; done
done

step "scripts/package crate"
# Cargo comes from Rust's own installer: Debian's is too old, which the script has to say.
if command -v cargo >/dev/null; then
  scripts/package crate
else
  said=$(scripts/package crate 2>&1 >/dev/null) && exit 1
  echo "$said"
  [[ $said == *"cargo 1.90"* ]]
fi

step "build/ship has no tests"
if [ -e build/ship/tests ]; then exit 1; fi

step "what the packages need of the system"
stated=$(sed -n 's/.*packages made on Debian 12 need glibc \(2\.[0-9]*\) or later.*/\1/p' docs/guide/embed.md)
needs=$(tar -xzOf build/packages/dllm-*.tar.gz --wildcards '*/needs.txt')
echo "$needs"
glibc=$(sed -n 's/^glibc GLIBC_//p' <<<"$needs")
if [ "$(. /etc/os-release && echo "$VERSION_ID")" = 12 ]; then # what newer systems build may need more
  [ "$glibc" = "$stated" ] || { echo "the tarball needs glibc $glibc; docs/guide/embed.md says $stated"; exit 1; }
  ls build/packages/dllm-*-manylinux_"${stated/./_}"_*.whl
fi
# Every system has these; libfmt and libhwy in the tarball need the C++ library.
foreign=$(grep -vE '^(glibc|libstdc\+\+) |^(libc|libm|libgcc_s|libstdc\+\+|libz|ld-linux-[a-z0-9_-]*)\.so\.[0-9]+$' <<<"$needs" || true)
[ -z "$foreign" ] || { echo "the tarball needs of the system: $foreign"; exit 1; }
