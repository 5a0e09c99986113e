#!/usr/bin/env bash
# The program from outside, everything but training: what a first user types, and what is answered.
#   generate_program_test.sh DLLM
set -uo pipefail
dllm=$1
work=$(mktemp -d -t dllm_generate_XXXXXX)
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
run() { "$dllm" "$@" >out 2>err </dev/null; code=$?; }
exits() { [ "$code" -eq "$1" ]; }
says() { grep -qF -- "$2" "$1"; }
lines() { [ "$(wc -l <"$1")" -eq "$2" ]; }
fails_with() { exits "$1" && says err "$2"; }

# The command line.
run generate --stepz 10
check "an unknown option: the nearest and the command's help" \
  eval 'fails_with 2 "dllm generate: there is no option named \"--stepz\"; did you mean --steps?" && says err "dllm generate --help"'
run trian
check "an unknown command: the nearest" fails_with 2 'there is no command named "trian"; did you mean train?'
run generate --attention causal
check "a key of two kinds: both names" fails_with 2 "--model.attention, --decoder.attention"
run generate --model x --steps ten
check "a word that is no number: the flag as typed, exit 2" fails_with 2 '--steps takes a whole number, not "ten"'
run generate --model x --slot.seed 1e3
check "the long name as typed" fails_with 2 '--slot.seed takes a whole number, not "1e3"'
run generate --model x --seed 1e3
check "the short name as typed" fails_with 2 '--seed takes a whole number, not "1e3"'
run generate --model x --temperature -3
check "a value out of bounds: exit 2 with the flag" fails_with 2 "--temperature: option temperature = -3 is out of bounds"
run generate --model x --policy foo
check "a policy that is not there: the names" eval 'fails_with 2 "there is no policy named \"foo\"" && says err "low_confidence"'
run generate --model
check "a flag without its value" fails_with 2 "--model needs a value"
run generate
check "what is missing is named with an example" eval 'fails_with 2 "--model is missing" && says err "example: dllm generate"'
run inspect a b
check "a word too many" fails_with 2 'the word "b" is one too many'
run help generate
check "dllm help generate" eval 'exits 0 && says out "--temperature" && says out "usage: dllm generate [MODEL] [PROMPT]"'
run -v
check "dllm -v" eval 'exits 0 && grep -q "^dllm [0-9]" out'
run help --man
check "dllm help --man" eval 'exits 0 && says out ".SS dllm generate"'
run help --bash
check "dllm help --bash is bash" bash -n out

# --config
echo '{"decodr": {}}' >config.json
run generate --config config.json --model x
check "--config: an unknown member, its nearest" eval 'fails_with 2 "no option named \"decodr\"; did you mean decoder?"'
printf '{"decoder":\n  {"steps": }}\n' >config.json
run generate --config config.json --model x
check "--config: a syntax error has line and column" fails_with 2 "config.json:2:13 is not JSON"
echo '{"decoder": {"temperature": "hot"}}' >config.json
run generate --config config.json --model x
check "--config: a value of another type" fails_with 2 'config.json: decoder: option temperature takes a number, not a text'
run generate --config . --model x
check "--config: a folder" fails_with 1 ". is not a regular file: it is a folder"
for words in "replay ." "tokenize --tokenizer x --file ." "infill --model x --file ." "verify nowhere" "inspect nowhere" \
  "generate nowhere" "replay nowhere" "tokenize nowhere text" "generate --config nowhere x" "generate x --file nowhere"; do
  run $words
  check "dllm $words: one line in our words" eval 'exits 1 && grep -qE "there is no file or folder|it is a folder" err && ! says err filebuf'
done

# Standard output that cannot be written, and a pipe without a reader.
if [ -w /dev/full ]; then
  for words in --help "help generate" "devices --json" --version; do
    "$dllm" $words >/dev/full 2>err
    code=$?
    check "dllm $words > /dev/full: exit 1 and an error" fails_with 1 "cannot write standard output"
  done
fi
(sleep 1; exec "$dllm" help --man 2>err; ) | true
check "a reader that went away: no message" eval '! [ -s err ]'
"$dllm" help --man 2>err | head -n 1 >out
check "dllm | head" eval 'lines out 1 && ! [ -s err ]'

# A model.
for i in $(seq 300); do echo "line $i: the cat sat on the mat and the dog sat on the log."; done >text
run train --data text --rows line --out run --layers 1 --hidden 64 --vocab 300 --batch 4 --loader.length 32 \
  --loader.epochs 0 --steps 40 --lr 5e-3 --eval-every 0 --eval-batches 1
check "a small model" exits 0
step=$(ls -d run/step_*)

run generate --model run --prompt "the cat" --length 8 --steps 4 --temperature 0.7 --seed 3 --quiet
mv out asked
run generate run "the cat" --length 8 --steps 4 --temperature 0.7 --seed 3
check "generate MODEL PROMPT is the same" cmp -s asked out
for model in "$step" "$step/model"; do
  run generate "$model" "the cat" --length 8 --steps 4 --temperature 0.7 --seed 3
  check "generate $model is the same" cmp -s asked out
done
run generate --seed 9 --seed 3 run "the cat" --length 99 --length 8 --steps 4 --temperature 0.7
check "the last one of a flag counts" cmp -s asked out
run generate --model run --prompt "the cat" --length 8 --steps 4 --decoder.temperature 0.7 --slot.seed 3
check "--temperature and --seed are the decoder's and the request's" cmp -s asked out
echo '{"model": "run", "prompt": "the cat", "length": 8, "steps": 4, "temperature": 0.7, "slot": {"seed": 3}}' >config.json
run generate --config config.json
check "--config holds any option" cmp -s asked out
run generate --config config.json --seed 4
check "what is typed wins over --config" eval 'exits 0 && ! cmp -s asked out'
same() { "$dllm" generate run --length 8 --steps 4 --temperature 0.7 --seed 3 "$@" >out 2>err; cmp -s asked out; }
echo "the cat" >prompt
check "a piped prompt" eval 'echo "the cat" | same'
check "a prompt from a redirected file" eval 'same <prompt'
check "--prompt - reads standard input" eval 'echo "the cat" | same --prompt -'
check "--file" eval 'same --file prompt </dev/null'
check "a prompt on the command line is not joined by a pipe" eval 'echo ignored | same --prompt "the cat"'
run generate run x --file prompt
check "two prompts are refused" fails_with 2 "--prompt and --file are two prompts"
printf ':generate run --length 4 --steps 2 --quiet\n1 + 41\n' | "$dllm" repl >out 2>err
check "at the prompt of repl a pipe stays the script's" says out 42

run generate run "the cat" --length 8 --steps 4 --temperature 0.9 --seed 3 --samples 3 --json
check "--samples 3 --json: three lines with their seeds" eval 'exits 0 && lines out 3 && says out "\"seed\":5"'
check "--json has whole numbers" eval 'says out "\"steps\":4,\"nfe\":4,\"open\":0"'
run generate run "the cat" --length 8 --steps 4 --temperature 0.9 --seed 5 --json
third=$(sed 's/.*"text":\("[^"]*"\).*/\1/' out)
run generate run "the cat" --length 8 --steps 4 --temperature 0.9 --seed 3 --samples 3 --json
check "a sample is the text of its seed alone" eval 'tail -n 1 out | grep -qF -- "$third"'
run generate run --length 0
check "--length 0" fails_with 2 "--length takes 1 and more, not 0"
run generate run "the cat" --length 8 --steps 4 --trace t.jsonl
check "--trace" eval 'exits 0 && [ "$(wc -l <t.jsonl)" -gt 3 ]'
run generate run "the cat" --length 8 --steps 4 --trace t.jsonl
check "--trace replaces a trace" exits 0
echo "my notes" >notes.txt
run generate run "the cat" --length 8 --steps 4 --trace notes.txt
check "--trace replaces no other file" eval 'fails_with 1 "notes.txt is there already" && says notes.txt "my notes"'
head -c -20 t.jsonl >cut.jsonl
run replay cut.jsonl
check "replay of a trace that was cut" eval 'exits 0 && says err "was cut"'

# Greedy decoding of a model that has learned nothing repeats itself.
run train --data text --rows line --out raw --layers 1 --hidden 64 --vocab 300 --batch 4 --loader.length 32 --steps 1 \
  --eval-every 0 --eval-batches 1
run generate raw --length 32
check "a text of one token: what to try" eval 'exits 0 && says err "tokens are the same: try --temperature 0.8 --policy random"'
run generate raw --length 32 --temperature 0.8 --policy random
check "a sampled text gets no such line" eval 'exits 0 && ! says err "the same"'

# A causal model.
run train --data text --rows line --out ar --objective ar --layers 1 --hidden 64 --vocab 300 --batch 4 \
  --loader.length 32 --loader.epochs 0 --steps 30 --lr 5e-3 --eval-every 0 --eval-batches 1
run generate ar "the cat" --length 8 --json
cp out chosen
run generate ar "the cat" --length 8 --json --policy autoregressive
check "a causal model decodes with autoregressive" eval 'exits 0 && cmp -s chosen out && says out "\"steps\":8"'
run generate ar "the cat" --length 8
check "and a line reports it" says err "ar is a causal model: --policy autoregressive"
run generate ar "the cat" --length 8 --policy low_confidence --json
check "unless a policy is named" eval 'exits 0 && ! cmp -s chosen out'
run generate ar "the cat" --length 8 --policy low_confidence
check "a policy of other models has a warning" \
  says err "warning: --policy low_confidence is for models that fill masks, and ar is one of the causal models: --policy autoregressive"
run generate raw "the cat" --length 8 --policy autoregressive
check "in both directions" says err "is for causal models, and raw is one of the models that fill masks: --policy low_confidence"
run generate raw "the cat" --length 8 --policy random
check "and a fitting one has none" eval 'exits 0 && ! says err "warning"'

# Ctrl-C: what was decided so far.
"$dllm" generate run "the cat" --length 1000 --steps 1000 --temperature 0.7 --samples 4 >out 2>err </dev/null &
program=$!
sleep 2
kill -INT "$program" 2>/dev/null
wait "$program"
code=$?
check "Ctrl-C: exit 130 and the text so far, holes as infill reads them" \
  eval 'exits 130 && grep -qE "<mask:[0-9]+>" out && grep -qE "interrupted after step [0-9]+: [0-9]+ positions are open" err'

# Looking.
run inspect run
check "inspect: what kind of model it is" \
  eval 'exits 0 && says out "llama, 1 layers of 64" && says out "bidirectional, shift 0" && says out "<|mask|>" && grep -qE "vocabulary +[0-9]+; the tokenizer has [0-9]+" out'
check "inspect: the layers stand on one line" eval 'says out "model.layers.*.mlp.up_proj.weight" && says out "loss"'
run inspect run --tensors
check "inspect --tensors: every one" says out "model.layers.0.mlp.up_proj.weight"
run inspect run --verify
check "inspect --verify says what was verified" says out "every file has the size and the checksum"
run inspect "$step/model" --verify
check "inspect --verify of a folder without checksums" says out "there are no checksums to compare"
run graph run
check "graph: a page" eval 'exits 0 && says out "weights" && says out "needs" && ! says out "{"'
run graph run --json
check "graph --json" eval 'exits 0 && says out "\"peak\":"'
run tokenize run "the cat"
check "tokenize TOKENIZER TEXT" eval 'exits 0 && [ -s out ]'
run tokenizer-train --data text --rows line --vocab 270 --out t.json
check "tokenizer-train --vocab, as train has it" eval 'exits 0 && says err "270 tokens in t.json"'
rm "$step/COMMIT"
run generate run x
check "a run whose checkpoints are damaged" fails_with 1 "run: no whole checkpoint is left"

echo "# $failures failures"
[ "$failures" -eq 0 ]
