#!/usr/bin/env bash
# dllm train from outside: small texts, values checked first, signals, locks, metrics, a causal model made to diffuse.
#   train_program_test.sh DLLM   (the path of the program)
set -uo pipefail
dllm=$1
work=$(mktemp -d -t dllm_train_XXXXXX)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

check() {  # check WHAT CONDITION...
  local what=$1
  shift
  if "$@"; then echo "ok - $what"; else
    echo "not ok - $what"
    failures=$((failures + 1))
    tail -5 out err 2>/dev/null | sed 's/^/#   /'
  fi
}
run() { "$dllm" "$@" >out 2>err; code=$?; }
exits() { [ "$code" -eq "$1" ]; }
says() { grep -q -- "$2" "$1"; }
no() { ! "$@"; }
steps() { ls -d "$1"/step_* 2>/dev/null | grep -v '[.]partial$\|[.]trash$' | sed 's/.*step_0*//' | sort -n | tr '\n' ' '; }
one_line_each() {  # every step stands once in the metrics
  grep '"train_step"' "$1/metrics.jsonl" | grep -o '"step":[0-9]*' | sort | uniq -d | grep -q . && return 1
  return 0
}

for i in $(seq 300); do echo "line $i: the cat sat on the mat and the dog sat on the log."; done >text
small=(--layers 1 --hidden 64 --vocab 300 --length 32 --batch 4)
train=(train --data text --rows line "${small[@]}" --eval-every 0 --eval-batches 2)

# Whatever text there is.
head -c 9000 text >short
printf 'one fish two fish red fish blue fish\n%.0s' $(seq 240) >equal
printf 'a b c\n' >tiny
run train --data short --out s1 --steps 2 "${small[@]}" --length 256
check "a short text trains" exits 0
for data in equal tiny; do
  run train --data $data --rows line --out "s_$data" --steps 2 "${small[@]}"
  check "$data: trains" exits 0
  check "$data: reports that nothing is held out" says err "too little text for a held-out loss"
done
run "${train[@]}" --out s2 --steps 2 --split-fraction 0
check "--split-fraction 0: trains, without a message" eval 'exits 0 && no says err "held-out"'
run "${train[@]}" --out s2b --steps 2 --loader.split all
check "--loader.split all: trains, without a held-out loss" eval 'exits 0 && no says err "held-out"'
run train --data tiny --rows line --out s3 --steps 2 "${small[@]}" --drop-tail true
check "not one row: exit 1" exits 1
check "not one row: the split's own numbers" says err "split all has 1 of 1 rows"
check "not one row: no folder is left" [ ! -e s3 ]
run train --data equal --rows line --out s4 --steps 1 "${small[@]}" --split-fraction 1 --length 64
check "everything held out: refused" eval 'exits 2 && says err "none is left to train on"'

# Endless without --epochs.
run "${train[@]}" --out e1 --steps 400 --batch 16 --save-every 0
check "--steps alone: the text is read again" eval 'exits 0 && [ "$(steps e1)" = "400 " ]'
run "${train[@]}" --out e2 --steps 400 --batch 16 --epochs 1
first=$(steps e2)
check "--epochs 1: ends with the data (step $first), with a message" eval '[ ${first:-0} -lt 400 ] && says err "makes $first"'
check "--epochs 1: the last line of the metrics is at the end of the schedule" says err "100 %"
run "${train[@]}" --out e2 --steps 400 --batch 16 --epochs 1
check "--epochs 1 again: the message has the way to go on" eval 'exits 0 && says err "without --epochs"'
run "${train[@]}" --out e3 --minutes 0.02 --trainer.schedule cosine
check "--minutes alone: ends by the clock" eval 'exits 0 && says err "budget is used up"'
last_lr=$(grep train_step e3/metrics.jsonl | tail -1 | grep -o '"lr":[^,]*' | cut -d: -f2)
check "--minutes: the cosine ends near 0 ($last_lr)" awk "BEGIN { exit !($last_lr < 6e-5) }"

# Values and files are looked at before anything is computed or written.
refuse() {  # refuse CODE TEXT ARGUMENTS...
  local wanted=$1 text=$2
  shift 2
  run "${train[@]}" --out refused "$@"
  check "refused: $*" eval 'exits "$wanted" && says err "$text" && [ ! -e refused ] && no says err "training a tokenizer"'
}
refuse 2 "whole number" --steps ten
refuse 2 "out of bounds" --steps -5
refuse 2 "below 1" --layers 0
refuse 2 "multiple of 64" --hidden 100
refuse 2 "there are" --objective foo
refuse 1 "no file or folder" --data nope.txt
refuse 1 "there is no file or folder nope.txt" --data 'nope.txt[:90%]'
run train --data 'text[:80%]*0.5+tex[t]' --rows line --out parts --steps 1 "${small[@]}" --eval-batches 0
check "--data takes parts, slices and patterns" exits 0
refuse 1 "no file or folder" --tokenizer nope.json
refuse 2 "for a new model" --from nope
refuse 1 "leaves nothing of" --steps 10 --warmup 20 --trainer.schedule cosine
refuse 2 "is --out" --trainer.root elsewhere
refuse 2 "held-out loss" --loader.split held_out
refuse 2 "needs --schedule" --schedule.compat dllm
refuse 2 "there is no option named \"--checkpoint.keep-last\"" --checkpoint.keep-last 2
run train --data text --rows line --length 32 --batch 4 --out refused --from nope
check "refused: --from of a folder that is not there" eval 'exits 1 && says err "no file or folder" && [ ! -e refused ]'
check "refused: nothing was written elsewhere" [ ! -e elsewhere ]

# An attempt that failed leaves nothing that the next one takes.
mkdir left && cp s1/tokenizer.json left/
run "${train[@]}" --out left --steps 2
check "a tokenizer without a checkpoint is made anew, with a message" \
  eval 'exits 0 && says err "without a checkpoint" && says err "vocabulary 300"'
run "${train[@]}" --out given --steps 2 --tokenizer left/tokenizer.json --vocab 400
check "--vocab that differs from --tokenizer is refused" eval 'exits 2 && says err "has 300 tokens"'

# What is saved when, and how many are kept.
run "${train[@]}" --out k1 --steps 10 --save-every 3 --save_every 2
check "--save_every is --save-every, the last one counts: every 2 steps, the last three are kept" [ "$(steps k1)" = "6 8 10 " ]
run "${train[@]}" --out k2 --steps 10 --save-every 2 --keep-last 2
check "--keep-last 2" [ "$(steps k2)" = "8 10 " ]
run "${train[@]}" --out k3 --steps 6 --save-every 2 --keep-last 0
check "--keep-last 0 keeps all" [ "$(steps k3)" = "2 4 6 " ]
run "${train[@]}" --out k3 --trainer.steps 8 --trainer.keep-last 0
check "--trainer.steps is --steps" [ "$(steps k3)" = "2 4 6 8 " ]

# Going on: what was the start cannot be another now.
resume=(train --data text --rows line --length 32 --batch 4 --eval-every 0 --out k1 --steps 12)
for other in "--layers 2" "--hidden 128" "--vocab 400" "--from s1" "--tokenizer s1/tokenizer.json" "--from nope" \
  "--model.shift 1" "--model.seed 3"; do
  # shellcheck disable=SC2086
  run "${resume[@]}" $other
  check "on resume refused: $other" eval 'exits 2 && says err "differs from"'
done
run "${resume[@]}" --layers 1 --hidden 64 --vocab 300
check "on resume the same values are fine" eval 'exits 0 && says err "resumed from"'
run "${train[@]}" --out k1 --steps 14 --objective ar
check "on resume another objective is refused" eval 'exits 2 && says err "differs from"'

# Signals save.
wait_for_steps() {  # wait_for_steps FOLDER COUNT
  for _ in $(seq 600); do
    [ -s "$1/metrics.jsonl" ] && [ "$(wc -l <"$1/metrics.jsonl")" -ge "$2" ] && return 0
    sleep 0.1
  done
  return 1
}
start() {  # start FOLDER: endless training in the background
  "$dllm" "${train[@]}" --out "$1" --steps 1000000 --save-every "${2:-0}" >out 2>err &
  program=$!
  wait_for_steps "$1" 5
}
for signal in INT:130 TERM:143 HUP:129; do
  start "sig_$signal"
  kill -"${signal%:*}" $program
  wait $program
  code=$?
  check "SIG${signal%:*}: saves and exits ${signal#*:}" \
    eval 'exits "${signal#*:}" && [ -n "$(steps sig_$signal)" ] && says err "the same command continues"'
  check "SIG${signal%:*}: no lock is left" [ ! -e "sig_$signal/LOCK" ]
done

# Two trainings in one folder; a kill leaves no lock and no undone steps.
start crash 7
run "${train[@]}" --out crash --steps 5
check "a second training is refused and names the first" eval 'exits 1 && says err "process $program trains there"'
wait_for_steps crash 30
kill -9 $program
wait $program 2>/dev/null
check "a killed run leaves LOCK" [ -e crash/LOCK ]
printf '{"event":"train_step","st' >>crash/metrics.jsonl
saved=$(steps crash | awk '{print $NF}')
run "${train[@]}" --out crash --steps $((saved + 3)) --save-every 7
check "after kill -9 the same command goes on" eval 'exits 0 && says err "resumed from"'
check "after kill -9 every step stands once in the metrics" one_line_each crash
check "after kill -9 the metrics end at the last step" \
  eval '[ "$(grep -c train_step crash/metrics.jsonl)" -eq $((saved + 3)) ]'

# JSON for machines.
run "${train[@]}" --out j --steps 4 --save-every 2 --json
check "--json: start, steps, checkpoints, evaluation, end" eval 'exits 0 && [ "$(grep -c train_step out)" -eq 4 ] &&
  says out "\"event\":\"start\"" && says out "\"event\":\"checkpoint\"" && says out "\"event\":\"eval\"" &&
  says out "\"reason\":\"steps\""'
check "--json: standard error has no progress line" no says err "tok/s"
run "${train[@]}" --out j --steps 6
check "a resumed run counts all steps" says err "100 %"
check "the end has the command to type next" says err "next: dllm generate --model j"
check "the end shows a sample" says err "^sample: "
head -c 40000 /dev/urandom >random
run train --data random --out r --steps 1 "${small[@]}"
check "a file that is not text is refused" eval 'exits 1 && says err "random is not text"'
mkdir folder && cp random folder/
run train --data folder --out r --steps 1 "${small[@]}"
check "it is refused in a folder too" eval 'exits 1 && says err "folder/random is not text"'

# A next-token model becomes a diffusion model, and each form of it records that.
run "${train[@]}" --out ar --steps 6 --objective ar
check "ar: exit 0" exits 0
check "ar: causal, shift 1" eval 'says ar/step_000006/model/config.json "\"attention\": \"causal\"" &&
  says ar/step_000006/model/config.json "\"shift\": 1"'
# As other people's tools write it: no object "dllm", no mask token.
cp -r ar/step_000006/model plain
sed -i '/"mask_token_id"/d; /"dllm": {/,/}/d' plain/config.json
sed -i 's/<|mask|>/<|none|>/g' plain/tokenizer.json plain/tokenizer_config.json
sed -i ':a;N;$!ba;s/,\n}/\n}/' plain/config.json
for from in ar plain; do
  rm -rf diffuse
  run train --data text --rows line --length 32 --batch 4 --from $from --out diffuse --steps 5 --eval-every 0 --lr 3e-3
  check "from $from: exit 0 and a line with what changes" \
    eval 'exits 0 && says err "$from is a causal model: trained from here on in both directions, shift 1"'
  check "from $from: the checkpoint records it" \
    eval 'says diffuse/step_000005/model/config.json "\"attention\": \"bidirectional\"" &&
          says diffuse/step_000005/model/config.json "\"shift\": 1"'
done
check "from plain: the new mask token is reported" says err "plain has no mask token: the new row 300 becomes <|mask|>"
check "from plain: the tokenizer has it" says diffuse/step_000005/model/tokenizer.json '<|mask|>'
check "from plain: tokenizer_config.json names it" says diffuse/step_000005/model/tokenizer_config.json '"mask_token": "<|mask|>"'
run generate --model diffuse --length 16 --steps 4 --policy random --slot.seed 3 --quiet
cp out own
run generate --model diffuse --length 16 --steps 4 --policy random --slot.seed 3 --quiet --decoder.attention bidirectional
check "it decodes in both directions by itself" eval 'exits 0 && cmp -s out own'
run train --data text --rows line --from ar --layers 3 --out never --steps 1
check "--layers with --from is refused" eval 'exits 2 && [ ! -e never ]'

echo "# $failures failures"
[ "$failures" -eq 0 ]
