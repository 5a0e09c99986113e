#!/usr/bin/env bash
# A topic that loses passes, gains skips or does not run must fail by name.   pins_test.sh PARITY
set -uo pipefail
parity=$1
work=$(mktemp -d -t dllm_pins_XXXXXX)
trap 'rm -rf "$work"' EXIT
failures=0

golden=$work/golden
mkdir -p "$golden/own/chat_templates"
entry() { printf '{"name": "%s", "template": "%s", "messages": [], "text": "%s"}' "$1" "$2" "$3"; }
cat >"$golden/own/chat_templates/cases.json" <<END
{"own_templates": [$(entry a 'x{{ 1 + 1 }}' x2), $(entry b 'y' y)],
 "cases": [{"name": "c", "template_of": "no_such_asset", "messages": [], "text": ""}]}
END

# pins WANT_STATUS WANT_LINE JSON: runs with these pins.
pins() {
  printf '%s' "$3" >"$work/pins.json"
  "$parity" "$golden/own" --assets "$work" --pins "$work/pins.json" >"$work/out" 2>&1
  local status=$?
  if [ "$status" -eq "$1" ] && grep -q -- "$2" "$work/out"; then echo "ok - $3"; else
    echo "not ok - $3: status $status, expected $1 and a line with: $2"
    sed 's/^/#   /' "$work/out"
    failures=$((failures + 1))
  fi
}

waits='"assets": {"no_such_asset": 1}'
pins 0 '2 passed, 0 failed, 1 skipped' "{\"own/chat_templates\": {\"passed\": 3, \"skipped\": 0, $waits}}"
pins 1 'FAIL own/chat_templates 2 cases passed, pinned 3' "{\"own/chat_templates\": {\"passed\": 4, \"skipped\": 0, $waits}}"
pins 1 'FAIL own/chat_templates 1 cases wait for no_such_asset, pinned 0' '{"own/chat_templates": {"passed": 2, "skipped": 0}}'
pins 1 'FAIL own/masks did not run' '{"own/masks": {"passed": 1, "skipped": 0}}'
pins 0 'note own/chat_templates has no pin' '{"other/masks": {"passed": 1, "skipped": 0}}'

# What a run writes is what it is held to.
"$parity" "$golden" --assets "$work" --counts "$work/counts.json" >/dev/null
pins 0 '2 passed' "$(cat "$work/counts.json" | sed 's/"passed":2/"passed":3/; s/"skipped":1/"skipped":0/')"

# A case that no handler takes is a skip that the pin does not allow.
sed -i 's/"cases"/"new_cases"/' "$golden/own/chat_templates/cases.json"
pins 1 'FAIL own/chat_templates 1 cases skipped, pinned 0' '{"own/chat_templates": {"passed": 2, "skipped": 0}}'

"$parity" "$work/absent/own" >"$work/out"
grep -q 'skipped: no golden folder' "$work/out" || { echo "not ok - an absent folder is reported"; failures=$((failures + 1)); }
"$parity" "$golden/absent" >"$work/out"
if [ $? -eq 0 ] || ! grep -q 'FAIL .*absent is not a folder' "$work/out"; then
  echo "not ok - a set that is absent fails"
  failures=$((failures + 1))
fi
echo "# $failures failures"
[ "$failures" -eq 0 ]
