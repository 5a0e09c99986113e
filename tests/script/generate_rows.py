"""dllm generate --prompts: many rows, errors of rows, a file that is gone on with.   generate_rows.py DLLM SCRATCH STORIES.GGUF"""
import gzip
import json
import pathlib
import signal
import subprocess
import sys
import time

from cli_options import Program

DLLM, SCRATCH, MODEL = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
program = Program(DLLM, SCRATCH)
ok = program.ok
ROWS = [
    {"prompt": "Once there was", "id": "first", "length": 20},
    "One day",
    {"infill": "Once there was a <mask:3> named Hugo."},
    {"prompt": "x", "temprature": 3},
    {"prompt": "Once", "policy": "random", "steps": 4, "temperature": 0.8, "length": 12},
    {"messages": [{"role": "user", "content": "hi"}]},
    {"prompt": "Once there was", "stop": ["Hugo", "Nora"], "length": 40},
]


def write(name, rows):
    (SCRATCH / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def generate(*words, stdin=""):
    return program.run("generate", MODEL, *words, stdin=stdin)


def answers(name):
    lines = [json.loads(line) for line in (SCRATCH / name).read_text().splitlines()]
    return {line["row"]: line for line in lines}


def rows_and_errors():
    write("rows.jsonl", ROWS)
    done = generate("--prompts", "rows.jsonl", "--out", "out.jsonl", "--length", "16")
    ok(done.returncode == 1 and "2 of 7 rows failed" in done.stderr, f"rows that fail give the exit code 1: {done.stderr[-200:]}")
    found = answers("out.jsonl")
    ok(sorted(found) == list(range(7)), "every row has a line")
    ok(found[0]["id"] == "first" and found[0]["completion_tokens"] == 20, "a row has its id and its own settings")
    ok(found[2]["holes"] and "named Hugo." in found[2]["completion"], "an infill has its holes")
    ok(found[3]["error"]["code"] == "not_found" and "temperature" in found[3]["error"]["hint"], "a misspelt setting fails its row alone")
    ok(found[5]["error"]["code"] == "failed_precondition", "messages without a template fail their row alone")
    mended = [{"prompt": row["prompt"], "length": 6} if number == 3 else row for number, row in enumerate(ROWS)]
    write("mended.jsonl", mended)
    (SCRATCH / "mended_out.jsonl").write_text((SCRATCH / "out.jsonl").read_text())
    done = generate("--prompts", "mended.jsonl", "--out", "mended_out.jsonl", "--length", "16")
    again = answers("mended_out.jsonl")
    ok("1 of 7 rows failed" in done.stderr and sorted(again) == list(range(7)) and again[3]["completion"] and "error" not in again[3]
       and again[6] == found[6], f"a corrected row is decoded, the others stay: {done.stderr[-200:]}")
    ok(found[6]["finish"] == "stop_text" and not any(stop in found[6]["completion"] for stop in ("Hugo", "Nora")), "a stop text of a row")
    (SCRATCH / "plain.jinja").write_text("{% for m in messages %}{{ m['content'] }}{% endfor %}")
    write("messages.jsonl", [ROWS[5], {"prompt": "One day"}])
    done = generate("--prompts", "messages.jsonl", "--out", "templated.jsonl", "--length", "16", "--template", "plain.jinja")
    ok(done.returncode == 0 and answers("templated.jsonl")[0]["completion"], f"--template is for rows with messages: {done.stderr[-200:]}")
    done = generate("--prompts", "messages.jsonl", "--out", "templated.jsonl", "--length", "16")
    ok(done.returncode == 1 and "settings" in done.stderr, "lines of another template are refused")
    write("edited.jsonl", [{"prompt": "One day", "length": 8}])
    generate("--prompts", "edited.jsonl", "--out", "edited_out.jsonl")
    ok(generate("--prompts", "edited.jsonl", "--out", "edited_out.jsonl").returncode == 0, "the same settings of a row go on")
    write("edited.jsonl", [{"prompt": "One day", "length": 9}])
    done = generate("--prompts", "edited.jsonl", "--out", "edited_out.jsonl")
    ok(done.returncode == 1 and '"length":8' in done.stderr, f"other settings of a row are refused: {done.stderr[-300:]}")
    done = subprocess.run([DLLM, "generate", MODEL, b"Once\xff"], capture_output=True, timeout=60)
    ok(done.returncode == 2 and b"the prompt is not UTF-8" in done.stderr, f"a prompt that is not UTF-8: {done.stderr[-200:]}")
    done = generate("Once", "--decoder.threshold", "0.5")
    ok(done.returncode == 2 and "it is an option of policy" in done.stderr, f"an option of another policy names it: {done.stderr[-200:]}")
    done = generate("Once", "--until", "")
    ok(done.returncode == 2 and "not an empty one" in done.stderr, f"an empty --until: {done.stderr[-200:]}")
    (SCRATCH / "blank.jinja").write_text(" \n")
    done = generate("--prompts", "messages.jsonl", "--template", "blank.jinja")
    ok(done.returncode == 2 and "blank.jinja is blank" in done.stderr, f"a blank template: {done.stderr[-200:]}")
    turns = [{"from": "human", "value": "hi"}]
    write("shared.jsonl", [{"conversations": turns}])
    done = generate("--prompts", "shared.jsonl", "--out", "shared_out.jsonl", "--length", "16", "--template", "plain.jinja", "--seed", "5")
    said = answers("shared_out.jsonl")
    write("usual.jsonl", [{"messages": [{"role": "user", "content": "hi"}]}])
    generate("--prompts", "usual.jsonl", "--out", "usual_out.jsonl", "--length", "16", "--template", "plain.jinja", "--seed", "5")
    ok(said[0]["completion"] == answers("usual_out.jsonl")[0]["completion"], f"rows of conversations: {done.stderr[-200:]}")
    one = generate("One day", "--length", "16", "--seed", "1", "--json")
    ok(json.loads(one.stdout)["completion"] == found[1]["completion"], "row 1 is what seed 1 alone writes")
    return found


def goes_on(wanted):
    whole = (SCRATCH / "out.jsonl").read_text()
    for cut in (0, 1, whole.index("\n") + 1, len(whole) // 2, len(whole)):
        if cut == 1:
            continue  # not a file of answers
        (SCRATCH / "cut.jsonl").write_text(whole[:cut])
        generate("--prompts", "rows.jsonl", "--out", "cut.jsonl", "--length", "16", "--batch", "2")
        ok(answers("cut.jsonl") == wanted, f"a file of {cut} bytes is gone on with, and has the same answers")
    for _ in range(3):
        (SCRATCH / "killed.jsonl").unlink(missing_ok=True)
        words = [DLLM, "generate", MODEL, "--prompts", "rows.jsonl", "--out", "killed.jsonl", "--length", "16", "--batch", "1", "--quiet"]
        child = subprocess.Popen(words, cwd=SCRATCH, stderr=subprocess.DEVNULL)
        while not (SCRATCH / "killed.jsonl").exists() or (SCRATCH / "killed.jsonl").stat().st_size == 0:
            time.sleep(0.002)
        child.send_signal(signal.SIGKILL)
        child.wait()
        subprocess.run(words, cwd=SCRATCH, stderr=subprocess.DEVNULL)
        ok(answers("killed.jsonl") == wanted, "after kill -9 the same answers")


def one_writer():
    write("pair.jsonl", ["Once", "One day"])
    program.has_one_writer("pair_out.jsonl", "generate", MODEL, "--prompts", "pair.jsonl", "--out", "pair_out.jsonl", "--length", "8", "--batch", "1")


def other_settings():
    """Answers of another model or of other settings are not mixed, nor taken for the ones asked for."""
    whole = (SCRATCH / "out.jsonl").read_text()
    model = "copy.gguf"
    (SCRATCH / model).write_bytes(pathlib.Path(MODEL).read_bytes())
    for lines in (2, 7):
        text = "".join(whole.splitlines(keepends=True)[:lines])
        (SCRATCH / "mixed.jsonl").write_text(text)
        for named, words in (("settings", [MODEL, "--length", "12"]), ("settings", [MODEL, "--length", "16", "--temperature", "1"]),
                             ("settings", [MODEL, "--length", "16", "--seed", "4"]), ("model", [model, "--length", "16"])):
            done = program.run("generate", *words, "--prompts", "rows.jsonl", "--out", "mixed.jsonl")
            ok(done.returncode == 1 and f"line 1 was made with {named}" in done.stderr, f"{lines} lines, {words[1:]}: {done.stderr[-200:]}")
            ok((SCRATCH / "mixed.jsonl").read_text() == text, "the file is as it was")


def another_checkpoint():
    """Answers of an earlier checkpoint are not taken for answers of the run as it is."""
    (SCRATCH / "corpus").write_text("the cat sat on the mat\n" * 50)
    words = ["train", "--data", "corpus", "--rows", "line", "--out", "run", "--layers", "1", "--hidden", "64", "--vocab", "300", "--length", "16",
             "--batch", "4", "--eval-every", "0", "--steps"]
    made = ["generate", "run", "--prompts", "rows.jsonl", "--out", "of_run.jsonl", "--length", "8"]
    (SCRATCH / "rows.jsonl").write_text('{"prompt": "the cat"}\n')
    program.run(*words, "2")
    ok(program.run(*made).returncode == 0 and program.run(*made).returncode == 0, "one checkpoint: the command goes on")
    program.run(*words, "4")
    done = program.run(*made)
    ok(done.returncode == 1 and "checkpoint" in done.stderr, f"another checkpoint: {done.stderr[-200:]}")
    ev = ["eval", "run", "corpus", "--row-length", "16", "--limit", "2", "--out", "scores.jsonl"]
    ok(program.run(*ev).returncode == 0 and program.run(*ev).returncode == 0, "eval goes on")
    program.run(*words, "6")
    done = program.run(*ev)
    ok(done.returncode == 1 and "checkpoint is \"step_000004\", here \"step_000006\"" in done.stderr, f"eval of another checkpoint: {done.stderr[-200:]}")


def same_names():
    """Another model, other data and another run under the names of before are refused."""
    words = ["train", "--data", "corpus", "--rows", "line", "--out", "run", "--layers", "1", "--hidden", "64", "--vocab", "300", "--length", "16",
             "--batch", "4", "--eval-every", "0", "--fresh", "--steps", "2"]
    made = ["generate", "run", "--prompts", "rows.jsonl", "--out", "again.jsonl", "--length", "8"]
    ev = ["eval", "run", "corpus", "--row-length", "16", "--limit", "2", "--out", "again-scores.jsonl"]
    program.run(*words)
    ok(program.run(*made).returncode == 0 and program.run(*made).returncode == 0, "the same run: generate goes on")
    ok(program.run(*ev).returncode == 0 and program.run(*ev).returncode == 0, "the same run: eval goes on")
    for command in (made, ev):
        done = program.run(*command, "--model.attention", "causal")
        ok(done.returncode == 1 and "model_options" in done.stderr, f"other options of the model: {done.stderr[-200:]}")
    program.run(*words, "--lr", "0.02")
    for command in (made, ev):
        done = program.run(*command)
        ok(done.returncode == 1 and "model_checksum" in done.stderr, f"another run of this name: {done.stderr[-200:]}")
    (SCRATCH / "again-scores.jsonl").unlink()
    program.run(*ev)
    (SCRATCH / "corpus").write_text("another dog on another log\n" * 60)
    done = program.run(*ev)
    ok(done.returncode == 1 and "data_checksum" in done.stderr, f"other data of this name: {done.stderr[-200:]}")


def refusals():
    write("other.jsonl", ["another prompt", *ROWS[1:]])
    (SCRATCH / "text.txt").write_text("Once there was\n\nOne day\r\n")
    (SCRATCH / "bad.jsonl").write_text('{"x": 1}\n')
    (SCRATCH / "empty.jsonl").write_text("\n")
    done = generate("--prompts", "text.txt", "--length", "8")
    ok([json.loads(line)["prompt"] for line in done.stdout.splitlines()] == ["Once there was", "One day"], "a .txt file has a prompt a line")
    for words, said in ((("--prompts", "bad.jsonl"), "line 1 is not a row of prompts: its keys are x"), (("--prompts", "empty.jsonl"), "has no rows"),
                        (("--prompts", "absent"), "absent"), (("--out", "x"), "needs --prompts"), (("--batch", "2"), "needs --prompts"),
                        (("--prompts", "text.txt", "--batch", "0"), "1 to 65536"), (("a prompt", "--prompts", "text.txt"), "exclude"),
                        (("--prompts", "text.txt", "--samples", "2"), "exclude"), (("--prompts", "rows.jsonl", "--out", "text.txt"), "not an answer"),
                        (("--prompts", "other.jsonl", "--out", "out.jsonl", "--length", "16"), "another row 0")):
        before = (SCRATCH / "out.jsonl").read_text()
        done = generate(*words)
        ok(done.returncode != 0 and said in done.stderr, f"{' '.join(words)}: {said} ({done.stderr.strip()[-160:]})")
        ok((SCRATCH / "out.jsonl").read_text() == before, "a refusal leaves the file as it was")


def instructions():
    """Rows of training on instructions are prompts, in the template of the training."""
    rows = [{"instruction": f"say {i}", "input": "now" * (i % 2), "output": f"cat {i}"} for i in range(60)]
    write("train.jsonl", rows)
    write("talks.jsonl", [{"messages": [{"role": "user", "content": f"say {i}"}, {"role": "assistant", "content": f"cat {i}"}]} for i in range(60)])
    small = ["--layers", "1", "--hidden", "64", "--vocab", "400", "--length", "96", "--batch", "4", "--eval-every", "0", "--steps", "2"]
    ask = "Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n### Instruction:\nsay 4\n\n### Response:"
    fed = ask.replace(". Write", ", paired with an input that provides further context. Write").replace("say 4\n", "say 4\n\n### Input:\nnow\n")
    words = ["--length", "8", "--seed", "3", "--out"]
    for out, data, more, turns in (("plainly", "train.jsonl", [], None), ("named", "train.jsonl", ["--template", "alpaca"], None),
                                   ("chats", "train.jsonl", ["--template", "chatml"], "say 4\n\nnow"), ("talks", "talks.jsonl", [], "say 4\n\nnow")):
        done = program.run("train", "--data", data, "--out", out, *small, *more)
        ok(done.returncode == 0, f"a run of {out}: {done.stderr[-300:]}")
        plain = {"prompt": ask} if turns is None else {"messages": [{"role": "user", "content": "say 4"}]}
        with_input = {"prompt": fed} if turns is None else {"messages": [{"role": "user", "content": turns}]}
        write("asked.jsonl", [{"instruction": "say 4"}, {"instruction": "say 4", "input": "now", "output": "cat"}])
        write("plain.jsonl", [plain, with_input])
        for name in ("asked", "plain"):
            done = program.run("generate", out, "--prompts", f"{name}.jsonl", *words, f"{out}_{name}")
            ok(done.returncode == 0, f"{out}: {name} {done.stderr[-300:]}")
        asked, texts = ([answers(f"{out}_{name}")[i] for i in (0, 1)] for name in ("asked", "plain"))
        ok([a["prompt_tokens"] for a in asked] == [t["prompt_tokens"] for t in texts] and [a["completion"] for a in asked] == [t["completion"] for t in texts],
           f"{out}: instructions are read as in training: {asked} {texts}")
        ok(asked[1]["output"] == "cat" and asked[1]["input"] == "now" and "request" not in asked[1], f"{out}: the line has the row: {asked[1]}")
        again = program.run("generate", out, "--prompts", "asked.jsonl", *words, f"{out}_asked")
        ok(again.returncode == 0 and "2 of 2 rows" in again.stderr, f"{out}: the file is gone on with: {again.stderr[-200:]}")
    # chat takes the prompt of the training, unless a template is named.
    said = {words: program.run("chat", *words, "--message", "say 4", "--length", "8")
            for words in (("plainly",), ("plainly", "--template", "alpaca"), ("plainly/best",), ("chats",))}
    ok(said[("plainly",)].returncode == 0 and said[("plainly",)].stdout == said[("plainly", "--template", "alpaca")].stdout, f"chat: {said[('plainly',)].stderr}")
    for words, done in said.items():
        ok(("was trained on instructions: --template alpaca" in done.stderr) == (words in (("plainly",), ("plainly/best",))), f"chat {words}: {done.stderr[-200:]}")



def trained_prompt():
    """What a run is prompted with is what its rows had, in the run and in all that is made of it."""
    small = ["--layers", "1", "--hidden", "64", "--vocab", "400", "--length", "96", "--batch", "4", "--eval-every", "0", "--steps", "2"]
    write("pairs.jsonl", [{"prompt": f"say {i}", "response": f"cat {i}"} for i in range(60)])
    tune = ["--length", "192", "--batch", "4", "--eval-every", "0", "--steps", "2", "--objective", "llada_sft"]
    runs = {}
    for out, words in (("base", ["--data", "talks.jsonl", *small]), # its tokenizer has chatml
                       ("tuned", ["--data", "train.jsonl", "--from", "base", *tune]), ("paired", ["--data", "pairs.jsonl", *small, "--template", "chatml"]),
                       ("low", ["--data", "train.jsonl", "--from", "base", "--lora", "2", *tune])):
        runs[out] = program.run("train", "--out", out, *words)
        ok(runs[out].returncode == 0, f"a run of {out}: {runs[out].stderr[-300:]}")
    ok("prompt of Alpaca is the chat template" in runs["tuned"].stderr, f"a line says so: {runs['tuned'].stderr[-600:]}")
    forms = {"tuned": ["tuned", "tuned/best"], "paired": ["paired"], "low": ["low"]}
    for run, names in forms.items():
        for form, words in (("export", ["export", run, f"{run}_export", *(["--merge"] if run == "low" else [])]),
                            ("gguf", ["convert", run, f"{run}.gguf"]), ("again", ["convert", f"{run}_export", f"{run}_again"]),
                            ("small", ["quantize", f"{run}_export", f"{run}_small", "--format", "f32"])):
            if run == "low" and form == "gguf":
                continue
            done = program.run(*words)
            ok(done.returncode == 0, f"{words}: {done.stderr[-300:]}")
            names.append(words[2])
    done = program.run("export", "low", "low_peft")
    ok(done.returncode == 0, f"export low: {done.stderr[-300:]}")
    forms["low"].append(("base", "--model.adapter", "low_peft"))
    data = {"tuned": "train.jsonl", "paired": "pairs.jsonl", "low": "train.jsonl"}
    for run, names in forms.items():
        texts, scores, rows = set(), set(), set()
        for at, name in enumerate(names):
            model = list(name) if isinstance(name, tuple) else [name]
            done = program.run("chat", *model, "--message", "say 4", "--length", "8", "--json")
            texts.add((json.loads(done.stdout)["content"], json.loads(done.stdout)["prompt_tokens"]) if done.returncode == 0 else done.stderr)
            if name != f"{run}.gguf": # a file has no place for the form of rows; instructions need none
                done = program.run("eval", *model, data[run], "--limit", "16", "--row-length", "192", "--json")
                scores.add(f"{json.loads(done.stdout)['nats_per_token']:.4f} {json.loads(done.stdout)['tokens']}" if done.returncode == 0 else done.stderr)
            out = f"rows_{run}_{at}"
            done = program.run("generate", *model, "--prompts", "asked.jsonl", "--length", "8", "--seed", "3", "--out", out)
            rows.add(str([(row["completion"], row["prompt_tokens"]) for row in answers(out).values()]) if done.returncode == 0 else done.stderr)
        ok(len(texts) == 1, f"chat with {names}: {texts}")
        ok(len(scores) == 1, f"scores of {names}: {scores}")
        ok(len(rows) == 1, f"instructions to {names}: {rows}")


def other_files():
    """A JSON array is read; files of other formats are named."""
    write("some.jsonl", ["Once upon", "A cat"])
    (SCRATCH / "array.json").write_text(' [\n"Once upon", {"prompt": "A cat"}]\n')
    lines, array = (program.run("generate", MODEL, "--prompts", name, "--length", "8", "--json") for name in ("some.jsonl", "array.json"))
    ok(array.returncode == 0 and array.stdout == lines.stdout != "", f"a JSON array: {array.stderr[-300:]}")
    (SCRATCH / "rows.csv").write_text("prompt\nOnce\n")
    (SCRATCH / "some.jsonl.gz").write_bytes(gzip.compress((SCRATCH / "some.jsonl").read_bytes()))
    (SCRATCH / "bad_array.json").write_text('["Once", {"x": 1}]')
    for name, said in (("rows.csv", "a table of text"), ("some.jsonl.gz", "gunzip -k"), ("bad_array.json", "row 2 is not a row of prompts")):
        done = program.run("generate", MODEL, "--prompts", name, "--length", "8")
        ok(done.returncode == 1 and said in done.stderr and "JSON" in done.stderr or "row 2" in done.stderr, f"{name}: {done.stderr[-300:]}")
    # A byte order mark is skipped, and UTF-16 is refused by name.
    (SCRATCH / "plain.txt").write_text("Once upon\nA cat\n")
    (SCRATCH / "marked.txt").write_text("Once upon\nA cat\n", encoding="utf-8-sig")
    (SCRATCH / "marked.jsonl").write_text((SCRATCH / "some.jsonl").read_text(), encoding="utf-8-sig")
    for name, same in (("marked.txt", "plain.txt"), ("marked.jsonl", "some.jsonl")):
        marked, plain = (program.run("generate", MODEL, "--prompts", one, "--length", "8") for one in (name, same))
        ok(marked.returncode == 0 and marked.stdout == plain.stdout != "", f"a byte order mark in {name}: {marked.stderr[-300:]}")
    marked, plain = (program.run("generate", MODEL, "--file", name, "--length", "8").stdout for name in ("marked.txt", "plain.txt"))
    ok(marked == plain != "", f"a prompt with a byte order mark: {marked!r} {plain!r}")
    for ending in (".txt", ".jsonl"):
        (SCRATCH / f"wide{ending}").write_text((SCRATCH / ("plain" if ending == ".txt" else "some")).with_suffix(ending).read_text(), encoding="utf-16")
    for words in (["generate", MODEL, "--prompts", "wide.txt"], ["generate", MODEL, "--prompts", "wide.jsonl"], ["generate", MODEL, "--file", "wide.txt"],
                  ["infill", MODEL, "--file", "wide.txt"], ["tokenize", MODEL, "--file", "wide.txt"], ["verify", MODEL, "--against", "f32", "--data", "wide.txt"]):
        done = program.run(*words)
        ok(done.returncode == 1 and f"{words[3] if words[0] != 'verify' else words[5]} is UTF-16" in done.stderr and "iconv -f UTF-16" in done.stderr, f"{words}: {done.stderr[-300:]}")


def closed_pipe():
    """A reader that goes away ends the command quietly; with --out the reader does not matter."""
    write("long.jsonl", [f"Once {i}" for i in range(60)])
    for out in ([], ["--out", "piped.jsonl"]):
        child = subprocess.Popen([DLLM, "generate", MODEL, "--prompts", "long.jsonl", "--length", "8", "--batch", "2", "--quiet", *out], cwd=SCRATCH,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if not out:
            child.stdout.readline()
        child.stdout.close()
        said = child.stderr.read()
        code = child.wait(timeout=60)
        ok((code, said) == ((0 if out else 1), b""), f"closed pipe, {out}: {code} {said[-300:]}")
    ok(len(answers("piped.jsonl")) == 60, "all rows are in the file")


program.empty_folder()
found = rows_and_errors()
goes_on(found)
one_writer()
other_settings()
refusals()
another_checkpoint()
same_names()
instructions()
trained_prompt()
other_files()
closed_pipe()
sys.exit(1 if program.failures else 0)
