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
SMALL = ("--layers", "1", "--hidden", "64", "--vocab", "300", "--length", "64", "--batch", "4", "--steps", "2", "--eval-every", "0")


def trained(name, *options):
    return program.run("train", "--data", name, "--out", "new_" + name, "--fresh", *SMALL, *options)


write("table.csv", "prompt,completion\n" + "".join(f'"what is\n{i}?","{i}"\n' for i in range(40)))
write("array.json", [{"instruction": "double", "input": str(i), "output": str(2 * i)} for i in range(40)])
write("talks.json", [{"conversations": [{"from": "human", "value": f"hello {i}"}, {"from": "gpt", "value": f"bye {i}"}]} for i in range(40)])
for name, last in (("table.csv", "dllm generate"), ("array.json", "dllm chat"), ("talks.json", "dllm chat")):
    done = trained(name)
    ok(done.returncode == 0 and "next: " + last in done.stderr, f"{name} is trained on: {done.stderr[-300:]!r}")
done = run("chat", "new_talks.json", "hello 1", "--length", "8", "--json")
ok(json.loads(done.stdout)["role"] == "assistant", f"a run on conversations has its template: {done.stdout!r}")
for template in ("llama3", "qwen", "alpaca"):
    done = trained("table.csv", "--template", template)
    ok(done.returncode == 0 and "next: dllm chat" in done.stderr, f"--template {template}: {done.stderr[-300:]!r}")
for options, part in ((("--template", "chatlm"), "did you mean chatml"), (("--template", "nowhere.jinja"), "nowhere.jinja"),
                      (("--tokenizer", "made", "--template", "chatml"), "no tokens <|im_start|>, <|im_end|>")):
    kept = [word for word in SMALL if "--tokenizer" not in options or word not in ("--vocab", "300")]
    done = program.run("train", "--data", "table.csv", "--out", "no", *kept, *options)
    ok(done.returncode != 0 and part in done.stderr, f"{options}: {done.stderr[-300:]!r}")
write("rows.jsonl", "".join(json.dumps({"prompt": "lamp river " * 20 + str(i), "response": "x"}) + "\n" for i in range(40)))
cut = ("train", "--from", "made", "--out", "cut", "--pack", "false", "--length", "16", "--steps", "2", "--objective", "llada_sft",
       "--epochs", "0", "--batch", "4", "--data")
done = program.run(*cut, "rows.jsonl")
ok(done.returncode != 0 and "has a token to learn: their answers are cut away at 16 tokens" in done.stderr,
   f"rows that all teach nothing are refused: {done.stderr[-400:]!r}")
write("some.jsonl", json.dumps({"prompt": "a", "response": "x"}) + "\n" + (program.folder / "rows.jsonl").read_text())
done = run(*cut, "some.jsonl", "--split", "all")
for part in ("40 of 41 rows have no tokens to learn", "40 of 41 rows are longer than 16 tokens and are cut"):
    ok(part in done.stderr, f"{part}: {done.stderr[-400:]!r}")
roles = [{"messages": [{"role": "user", "content": "hello"}, {"role": "critic", "content": "no"}, {"role": "assistant", "content": "yes"}]}] * 40
write("roles.json", roles)
done = trained("roles.json")
ok("40 messages have an unknown role and are not learned: critic" in done.stderr, f"unknown roles are counted: {done.stderr[-400:]!r}")
called = [{"messages": [{"role": "user", "content": "what is 2+2"},
                        {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "adder", "arguments": "{}"}}]},
                        {"role": "tool", "content": "4"}, {"role": "assistant", "content": "four"}]}] * 40
write("called.json", called)
for template, lost in (("chatml", True), ("qwen", False)):
    done = program.run("tokenizer-train", "--data", "called.json", "--vocab", "300", "--template", template, "--out", f"tok_{template}/tokenizer.json")
    done = program.run("tokenize", "called.json", f"called_{template}.tok", "--model", f"tok_{template}")
    ok(done.returncode == 0 and ("40 of 40 conversations have tool calls that the template does not write" in done.stderr) == lost,
       f"tool calls under {template}: {done.stderr[-300:]!r}")
for name, row, parts in (("keys.jsonl", {"question": "a", "answer": "b"}, ("question, answer", "--prompt-key")),
                         ("pairs.jsonl", {"prompt": "p", "chosen": "a", "rejected": "b"}, ("no objective learns from pairs",)),
                         ("pictures.jsonl", {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, ("content[0] is image_url",))):
    write(name, json.dumps(row) + "\n")
    done = program.run("train", "--data", name, "--out", "no", "--steps", "1")
    for part in parts:
        ok(part in done.stderr, f"{name} is described with {part!r}: {done.stderr[-300:]!r}")
print(f"{program.failures} failures")
sys.exit(program.failures > 0)
