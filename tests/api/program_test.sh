#!/usr/bin/env bash
# The program from outside: exit codes, --json, a run that Ctrl-C ends and the same command resumes.
#   program_test.sh DLLM   (the path of the program)
set -uo pipefail
dllm=$1
work=$(mktemp -d -t dllm_program_XXXXXX)
trap 'rm -rf "$work"' EXIT
failures=0

check() {  # check WHAT CONDITION...
  local what=$1
  shift
  if "$@"; then echo "ok - $what"; else
    echo "not ok - $what"
    failures=$((failures + 1))
    tail -5 "$work"/out "$work"/err 2>/dev/null | sed 's/^/#   /'
  fi
}
run() { "$dllm" "$@" >"$work/out" 2>"$work/err" </dev/null; code=$?; }
exits() { [ "$code" -eq "$1" ]; }
says() { grep -q -- "$2" "$work/$1"; }
is_json() { head -c 1 "$work/out" | grep -q '[{[]' && tail -c 2 "$work/out" | grep -q '[]}]'; }

run --version
check "--version: exit 0" exits 0
run --help
check "--help: exit 0" exits 0
run train --help
check "train --help lists the options of the schemas" says out "--trainer.lr"
run
check "no command: exit 2" exits 2
run frobnicate
check "unknown command: exit 2" exits 2
run train --no-such-option 3
check "unknown option: exit 2" exits 2
run train
check "missing --data: exit 2" exits 2
run inspect "$work/nothing"
check "missing file: exit 1" exits 1
check "missing file: the message names it" says err "$work/nothing"
printf 'this is no model' >"$work/bad.gguf"
run inspect "$work/bad.gguf"
check "damaged file: exit 1" exits 1
run inspect --json "$work/bad.gguf"
check "damaged file with --json: exit 1 and JSON" eval 'exits 1 && is_json && says out error'
run devices --json
check "devices --json: exit 0 and JSON" eval 'exits 0 && is_json'

for i in $(seq 300); do echo "line $i: the cat sat on the mat and the dog sat on the log."; done >"$work/text"
train=(train --data "$work/text" --rows line --out "$work/run" --layers 2 --hidden 64 --vocab 300
  --loader.batch 4 --loader.length 32 --loader.epochs 0 --save-every 0 --eval-every 0 --eval-batches 2)
steps() { ls -d "$work"/run/step_* 2>/dev/null | sed 's/.*step_0*//' | sort -n | tail -1; }

# Ctrl-C once some steps are on record.
"$dllm" "${train[@]}" --steps 1000000 >"$work/out" 2>"$work/err" &
program=$!
for _ in $(seq 600); do
  [ -s "$work/run/metrics.jsonl" ] && [ "$(wc -l <"$work/run/metrics.jsonl")" -ge 5 ] && break
  kill -0 "$program" 2>/dev/null || break
  sleep 0.1
done
kill -INT "$program"
wait "$program"
code=$?
check "train: Ctrl-C exits 130" exits 130
first=$(steps)
check "train: Ctrl-C saves (step ${first:-none})" [ "${first:-0}" -ge 5 ]

goal=$((${first:-0} + 3))
run "${train[@]}" --steps "$goal"
check "the same command resumes: exit 0" exits 0
check "the same command resumes: says where from" says err "resumed from .*step_0*$first"
check "the same command resumes: reaches step $goal" [ "$(steps)" = "$goal" ]
run "${train[@]}" --steps "$goal"
check "a finished run is left alone: exit 0" exits 0

run generate --model "$work/run" --length 8 --steps 4 --quiet --json
check "generate --json: exit 0 and JSON" eval 'exits 0 && is_json && says out ids'
run infill --model "$work/run" --text "the cat <mask:3> the mat" --quiet
check "infill: exit 0" exits 0
check "infill: keeps what was given" says out "^the cat.*the mat"
echo '{% for m in messages %}{{ m.content }};{% endfor %}' >"$work/chat.jinja"
run chat --model "$work/run" --message hi
check "chat without a template: exit 1 and says so" eval 'exits 1 && says err "no chat template"'
printf 'the cat\n/reset\nthe dog\n/quit\nno more\n' |
  "$dllm" chat --model "$work/run" --template "$work/chat.jinja" --length 4 --json >"$work/out" 2>"$work/err"
code=$?
check "chat --json reads lines: exit 0, two answers" eval 'exits 0 && is_json && [ "$(wc -l <"$work/out")" -eq 2 ]'
run inspect --verify "$work/run"
check "inspect --verify of the run: exit 0" exits 0
run tokenize --help
check "tokenize --help: exit 0" exits 0

echo "# $failures failures"
[ "$failures" -eq 0 ]
