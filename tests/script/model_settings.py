"""What a model's files say about decoding and its data, by the program.   model_settings.py DLLM SCRATCH

generation_config.json gives defaults, an answer ends at every end token that a file names, and rows that teach nothing are reported.
"""
import json
import pathlib
import sys

from cli_options import LINES, Program

DLLM, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2])
program = Program(DLLM, SCRATCH)
ok = program.ok


def run(*words, code=0):
    done = program.run(*words)
    ok(done.returncode == code, f"{' '.join(words)}: exit {done.returncode} {done.stderr[-300:] if done.returncode != code else ''}")
    return done


def write(name, value):
    (SCRATCH / name).write_text(value if isinstance(value, str) else json.dumps(value))


def ids_of(*words):
    return json.loads(run("generate", "folder", "line 4: the", "--length", "12", "--json", *words).stdout)["ids"]


program.empty_folder()
write("corpus", "\n".join(LINES) + "\n")
run("train", "--data", "corpus", "--out", "made", "--rows", "line", "--layers", "2", "--hidden", "64", "--vocab", "300",
    "--length", "48", "--batch", "4", "--steps", "12", "--lr", "0.003")
run("export", "made", "folder")

# Values of the file are defaults: the same tokens as with options, and options go before.
plain = ids_of("--temperature", "0.9", "--top-p", "0.8", "--steps", "4", "--seed", "5")
greedy = ids_of("--steps", "4", "--seed", "5")
settings = {"do_sample": True, "temperature": 0.9, "top_p": 0.8, "diffusion_steps": 4, "repetition_penalty": 1.1,
            "max_new_tokens": 9, "block_size": None}
write("folder/generation_config.json", settings)
ok(ids_of("--seed", "5") == plain, "generation_config.json gives what its options give")
ok(ids_of("--seed", "5", "--temperature", "0", "--top-p", "1") == greedy, "options go before generation_config.json")
line = run("generate", "folder", "line 4", "--length", "4").stderr
for part in ("from generation_config.json: temperature 0.9, top_p 0.8, steps 4", "repetition_penalty 1.1 (", "left out: "):
    ok(part in line, f"the line has {part!r}: {line!r}")
line = run("generate", "folder", "line 4", "--length", "4", "--policy", "autoregressive", "--model.attention", "causal").stderr
ok("diffusion_steps 4 (policy autoregressive does not use it)" in line, f"a value without an option is named: {line!r}")
write("folder/generation_config.json", {"do_sample": False, "temperature": 0.9})
ok(ids_of("--seed", "5", "--steps", "4") == greedy, "do_sample false leaves the temperature out")

# Every end token of a list ends the answer and is not shown.
first = ids_of("--steps", "12")
stop = first[-12]
write("folder/generation_config.json", {"eos_token_id": [0, stop]})
done = json.loads(run("generate", "folder", "line 4: the", "--length", "12", "--steps", "12", "--block-length", "1", "--json").stdout)
last = [i for i, token in enumerate(done["ids"]) if token == stop]
ok(not last or done["ids"][last[0]:] == [stop] * (len(done["ids"]) - last[0]), f"what follows an end token is that token: {done['ids']}")

# Data in other forms, and rows that teach nothing.
write("table.csv", "a,b\n1,2\n")

write("array.json", [{"text": "a"}])
for name, hint in (("table.csv", "csv.DictReader"), ("array.json", "jq -c")):
    done = program.run("train", "--data", name, "--out", "no", "--steps", "1")
    ok(done.returncode != 0 and hint in done.stderr, f"{name} is refused with a command: {done.stderr[-300:]!r}")
write("rows.jsonl", "".join(json.dumps({"prompt": "lamp river " * 20 + str(i), "response": "x"}) + "\n" for i in range(40)))
done = run("train", "--data", "rows.jsonl", "--from", "made", "--out", "cut", "--pack", "false", "--length", "16", "--steps", "2",
           "--objective", "llada_sft", "--epochs", "0", "--batch", "4")
ok("have no tokens to learn: their answers are cut away at 16 tokens" in done.stderr, f"cut answers are reported: {done.stderr[-400:]!r}")
write("keys.jsonl", json.dumps({"instruction": "a", "output": "b"}) + "\n")
done = program.run("train", "--data", "keys.jsonl", "--out", "no", "--steps", "1")
for part in ("instruction, output", "--prompt-key"):
    ok(part in done.stderr, f"an unknown row is described with {part!r}: {done.stderr[-300:]!r}")
print(f"{program.failures} failures")
sys.exit(program.failures > 0)
