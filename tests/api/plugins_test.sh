#!/usr/bin/env bash
# dllm devices and dllm compile from outside: plugins that crash, hang and talk take nothing with them.
#   plugins_test.sh DLLM BAD_PLUGIN   (the program, tests/api/bad_plugin.c as a shared library)
set -uo pipefail
dllm=$1 bad=$2
work=$(mktemp -d -t dllm_plugins_XXXXXX)
trap 'rm -rf "$work"' EXIT
failures=0
plugins=${DLLM_ASSETS:-$(cd "$(dirname "$0")/../.." && pwd)/build/assets}/plugins
export DLLM_PLUGINS=$plugins

check() {  # check WHAT CONDITION...
  local what=$1
  shift
  if "$@"; then echo "ok - $what"; else
    echo "not ok - $what"
    failures=$((failures + 1))
    tail -n 5 "$work/out" "$work/err" 2>/dev/null | sed 's/^/#   /'
  fi
}
run() { "$dllm" "$@" >"$work/out" 2>"$work/err"; code=$?; }
exits() { [ "$code" -eq "$1" ]; }
says() { grep -q -- "$2" "$work/$1"; }
is_json() { python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$work/out"; }
skip() { echo "ok - skipped: $1"; }

mkdir "$work/tiny"
cat >"$work/tiny/config.json" <<'END'
{"model_type": "qwen3", "vocab_size": 512, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2,
 "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 512,
 "rms_norm_eps": 1e-6, "tie_word_embeddings": true, "dllm": {"attention": "bidirectional", "mask_token_id": 511}}
END

run devices --json
check "devices --json: exit 0, JSON" eval 'exits 0 && is_json && says out "\"engines\""'
run devices --plugin "$work/none.so"
check "a plugin that is not there: exit 1, its name" eval 'exits 1 && says out "$work/none.so does not exist"'
run devices --plugin "$work/tiny/config.json"
check "a file that is not a library: exit 1 and why" eval 'exits 1 && says out "not an ELF file"'
run devices --plugin "$bad"
check "a plugin without a table: exit 1 and why" eval 'exits 1 && says out "no table"'
BAD_PLUGIN=abort run devices --plugin "$bad"
check "a plugin that aborts: the signal" eval 'exits 1 && says out "signal 6"'
check "a plugin that aborts: its last words" says out "Check failed: bad_plugin is bad"
BAD_PLUGIN=abort run devices --plugin "$bad" --json
check "a plugin that aborts, --json: crashed" eval 'exits 1 && is_json && says out "\"state\":\"crashed\""'
BAD_PLUGIN=exit run devices --plugin "$bad"
check "a plugin that exits: the status" eval 'exits 1 && says out "exit status 7"'
BAD_PLUGIN=hang run devices --plugin "$bad" --time-limit 1
check "a plugin that hangs: the time limit" eval 'exits 1 && says out "did not end within 1"'
BAD_PLUGIN=flood run devices --plugin "$bad" --time-limit 1
check "a plugin that floods: the time limit" eval 'exits 1 && says out "did not end within 1" && [ "$(wc -c <"$work/out")" -lt 4000 ]'

run compile --model "$work/tiny" --what train
check "compile for nothing: exit 1, what to name" eval 'exits 1 && says err "--target v5e"'
run compile --model "$work/tiny" --target v5e-8
check "compile for a name that is none: exit 1, examples" eval 'exits 1 && says out "v5e-8" && says out "v5e:2x4"'
BAD_PLUGIN=abort run compile --model "$work/tiny" --plugin "$bad" --target v5e:1x1
check "compile with a plugin that aborts: the signal" eval 'exits 1 && says out "signal 6" && says out "bad_plugin is bad"'
BAD_PLUGIN=hang run compile --model "$work/tiny" --plugin "$bad" --target v5e:1x1 --time-limit 1
check "compile with a plugin that hangs: the time limit" eval 'exits 1 && says out "--time-limit"'
DLLM_PLUGINS=$work run devices --json
if says out '"platform":"tpu","state":"missing"'; then
  DLLM_PLUGINS=$work run compile --model "$work/tiny" --target v5e:1x1
  check "compile without libtpu: what gets it" eval 'exits 1 && says out "scripts/fetch-plugins tpu"'
fi

if [ -s "$plugins/libtpu.so" ]; then
  run compile --model "$work/tiny/config.json" --what forward --batch 2 --length 64 --target v5e:1x1,v5e:2x2 --json \
    --stablehlo "$work/text" --optimized "$work/made"
  check "compile for two TPUs: exit 0, both fit" eval 'exits 0 && is_json && [ "$(grep -o "\"fits\":true" "$work/out" | wc -l)" -eq 2 ]'
  check "compile: the program as text" grep -q "stablehlo.dot_general" "$work/text.v5e_1x1"
  check "compile: the optimized program as text" grep -q "^ENTRY" "$work/made.v5e_2x2"
  run compile --model "$work/tiny" --what forward --batch 1048576 --length 512 --target v5e:1x1
  check "compile of what does not fit: exit 0 and both numbers" eval 'exits 0 && says out "does not fit: needs .* of 15.75 GiB"'
else
  skip "$plugins/libtpu.so is not there: scripts/fetch-plugins tpu"
fi
if [ -s "$plugins/pjrt_c_api_cpu_plugin.so" ]; then
  run devices --probe --plugin cpu
  check "devices --probe: a small model ran" eval 'exits 0 && says out "away from the cpu engine"'
else
  skip "$plugins/pjrt_c_api_cpu_plugin.so is not there: scripts/fetch-plugins cpu"
fi

echo "# $failures failures"
[ "$failures" -eq 0 ]
