#!/usr/bin/env bash
# Packages in a system without compiler and without a checkout: each is installed as docs/guide/embed.md has it and writes a
# story, tarball and Debian packages the same one.   installed.sh PACKAGES STORIES_GGUF CONTAINERFILE
set -euo pipefail
packages=$1 model=$2 container=$3
work=$(mktemp -d)
cd "$work"
step() { echo "--- $*"; }
if command -v cc gcc g++ clang cmake; then echo "this system has a compiler"; exit 1; fi

cat >story.sh <<'SH'
"$1" generate "$2" "Once there was" --length 64 --block-length 1 --temperature 0.4 --seed 1
SH
tell() { sh story.sh "$1" "$model" >"$2"; }
learn() {  # learn PROGRAM NAME: trains a tiny model and goes on with it
  for i in $(seq 200); do echo "the cat sat on the mat and looked at the moon number $((i % 7))"; done >corpus.txt
  "$1" train --data corpus.txt --rows line --out "run_$2" --steps 2 --layers 1 --hidden 64 --vocab 300 --length 32 --batch 2 --eval-every 0
  "$1" generate "run_$2" "the cat" --steps 4 --length 8
}

step "tar: nothing was installed but what the system came with"
tar -xzf "$packages"/dllm-*.tar.gz
program=$(echo "$work"/dllm-*/bin/dllm)
"$program" --version
if ldd "$program" | grep "not found"; then exit 1; fi
tell "$program" tar.txt
cat tar.txt
learn "$program" tar
printf 'print(1 + 1)\n' | "$program" repl | grep -q 2

step "container: what the last stage of the image runs and sets, here"
mkdir -p /opt/dllm
tar -xzf "$packages"/dllm-*.tar.gz -C /opt/dllm --strip-components 1
sed '1,/-slim$/d' "$container" >stage.txt
awk '/^RUN / {on = 1} on {sub(/^RUN /, ""); line = $0; print; if (line !~ /\\$/) on = 0}' stage.txt >run.sh
grep -q apt-get run.sh
bash -e run.sh >/dev/null
(
  eval "export $(sed -n 's/^ENV //p' stage.txt)"
  program=$(sed -n 's/^ENTRYPOINT \["\(.*\)"\]/\1/p' stage.txt)
  "$program" generate "$model" "Once there was" --length 8 --steps 4
  said=$(HF_ENDPOINT=http://127.0.0.1:9 "$program" pull org/name 2>&1) && exit 1
  echo "$said"
  [[ $said == *127.0.0.1:9* && $said != *libcurl* ]] # the image has what a transfer needs
  test -w "$HF_HOME"
)

step "wheel: pip, in an environment of its own"
apt-get update -qq
apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
python3 -m venv venv
venv/bin/pip install -q --no-index --disable-pip-version-check "$packages"/dllm-*.whl
cat >story.py <<'PY'
import sys
import dllm

model, tokenizer = dllm.Model(sys.argv[1]), dllm.Tokenizer(sys.argv[1])
with dllm.Decoder(model, steps=32, gen_length=32, block_length=1, temperature=0.4) as decoder:
    decoder.start(tokenizer.encode("Once there was"), seed=1)
    for active in decoder.steps():
        pass
    print(tokenizer.decode(decoder.ids()))
PY
venv/bin/python story.py "$model" | tee wheel.txt
grep -q "^Once there was a" wheel.txt

step "deb: apt with what the packages depend on"
apt-get install -y -qq --no-install-recommends "$packages"/libdllm1_*.deb "$packages"/libdllm-dev_*.deb "$packages"/dllm_*.deb >/dev/null
dllm --version
tell dllm deb.txt
cmp tar.txt deb.txt # two builds, one story: the same seed, the same tokens
learn dllm deb
test -s /usr/share/man/man1/dllm.1.gz
rm -rf "$work"
