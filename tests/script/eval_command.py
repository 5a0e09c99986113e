"""dllm eval: the limits of programs, pass@k of known solutions, checkers, choices, resuming.   eval_command.py DLLM SCRATCH [HUMANEVAL]

HUMANEVAL: HumanEval.jsonl.gz; where it is not there, its part is skipped.
"""
import gzip
import json
import math
import os
import pathlib
import re
import sys

from cli_options import LINES, Program

DLLM, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2])
HUMANEVAL = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else pathlib.Path("absent")
program = Program(DLLM, SCRATCH)
ok = program.ok


def write(name, rows):
    (SCRATCH / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def evaluate(*words, code=0):
    done = program.run("eval", "--json", "--python", sys.executable, *words) if "--task" in words and "programs" in words \
        else program.run("eval", "--json", *words)
    ok(done.returncode == code, f"eval {' '.join(words)}: exit {done.returncode} {done.stderr[-300:] if done.returncode != code else ''}")
    return json.loads(done.stdout.splitlines()[-1]) if done.stdout else {}, done


def limits():
    """What a program must not do: each of these prints its own refusal, or is ended."""
    outside = SCRATCH / "secret.txt"
    outside.write_text("secret")
    programs = {
        "good": ("open('own.txt', 'w').write('a'); assert open('own.txt').read() == 'a'", True),
        "threads": ("import threading\nt = threading.Thread(target=lambda: None); t.start(); t.join()", True),
        "reads_outside": (f"open({str(outside)!r}).read()", False),
        "writes_outside": (f"open({str(outside)!r}, 'w').write('x')", False),
        "writes_tmp": ("open('/tmp/dllm_eval_was_here', 'w')", False),
        "removes_outside": (f"import os\nos.remove({str(outside)!r})", False),
        "mode_outside": (f"import os\nos.chmod({str(outside)!r}, 0)", False),
        "lists_home": ("import os\nos.listdir('/home')", False),
        "environment": ("import os\nassert set(os.environ) <= {'HOME', 'PATH', 'LANG', 'LC_CTYPE'}, os.environ", True),
        "parent": ("import os\nopen(f'/proc/{os.getppid()}/environ').read()", False),
        "network": ("import socket\nsocket.socket()", False),
        "fork": ("import os\nos.fork()", False),
        "shell": ("import subprocess\nsubprocess.run(['/bin/true'], check=True)", False),
        "kills": ("import os\nos.kill(os.getppid(), 9)", False),
        "leaves_group": ("import os\nos.setsid()", False),
        "memory": ("x = bytearray(1 << 31)", False),
        "time": ("while True: pass", False),
        "sleeps": ("import time\ntime.sleep(1000)", False),
        "floods": ("while True: print('x' * 1000)", False),
        "big_file": ("open('big', 'wb').write(b'x' * (1 << 25))", False),
        "leaves_early": ("import os\nos._exit(0)", False),
        "exits": ("raise SystemExit(0)", False),
        "crashes": ("import os\nos.abort()", False),
    }
    write("limits.jsonl", [{"task_id": name, "prompt": "def f():\n    pass\n", "entry_point": "f",
                            "test": "def check(f):\n    f()\n"} for name in programs])
    write("limits_solutions.jsonl", [{"task_id": name, "completion": code + "\n"} for name, (code, _) in programs.items()])
    out = SCRATCH / "limits_results.jsonl"
    report, _ = evaluate("--task", "programs", "--data", "limits.jsonl", "--solutions", "limits_solutions.jsonl",
                         "--seconds", "3", "--memory", "512", "--out", out.name)
    rows = {row["task"]: row for row in map(json.loads, out.read_text().splitlines()[1:])}
    for name, (_, good) in programs.items():
        ok(rows[name]["passed"] == good, f"program {name}: {rows[name]['result']}")
    ok(outside.read_text() == "secret" and outside.stat().st_mode & 0o777, "the file outside is as it was")
    ok(not pathlib.Path("/tmp/dllm_eval_was_here").exists(), "nothing was written to /tmp")
    ok(report["samples"] == len(programs), "every program has a result")


def human_eval():
    if not HUMANEVAL.exists():
        print(f"skipped: {HUMANEVAL} is not there")
        return
    rows = [json.loads(line) for line in gzip.open(HUMANEVAL, "rt")]
    write("right.jsonl", [{"task_id": row["task_id"], "completion": row["canonical_solution"]} for row in rows])
    write("wrong.jsonl", [{"task_id": row["task_id"], "completion": "    return 'no answer'\n"} for row in rows])
    for name, expected in (("right", 1.0), ("wrong", 0.0)):
        report, _ = evaluate("--task", "programs", "--data", str(HUMANEVAL), "--solutions", name + ".jsonl")
        ok(report["pass"]["pass@1"]["value"] == expected and report["tasks"] == 164,
           f"HumanEval, {name} solutions: {report['pass']}")
    # With the true solution among three of ten, by the formula of Chen et al. 2021.
    some = rows[:4]
    write("ten.jsonl", [{"task_id": row["task_id"], "completion": row["canonical_solution"] if i < 3 else "    pass\n"}
                        for row in some for i in range(10)])
    report, _ = evaluate("--task", "programs", "--data", str(HUMANEVAL), "--limit", "4", "--solutions", "ten.jsonl", "--k", "1,5,10")
    for k in (1, 5, 10):
        expected = 1 - math.comb(7, k) / math.comb(10, k)
        ok(abs(report["pass"][f"pass@{k}"]["value"] - expected) < 1e-12, f"pass@{k} is {expected}")


def other_formats():
    write("mbpp.jsonl", [{"task_id": 2, "text": "Write a function to add.", "code": "", "test_setup_code": "import math",
                          "test_list": ["assert add(1, 2) == 3", "assert math.pi > add(1, 1)"], "challenge_test_list": []}])
    write("mbpp_right.jsonl", [{"task_id": 2, "completion": "def add(a, b):\n    return a + b\n"}])
    report, _ = evaluate("--task", "programs", "--data", "mbpp.jsonl", "--solutions", "mbpp_right.jsonl")
    ok(report["pass"]["pass@1"]["value"] == 1, "MBPP: a solution passes")
    write("infilling.jsonl", [{"task_id": "x", "prompt": "def twice(a):\n", "suffix": "    return b\n", "entry_point": "twice",
                               "test": "def check(f):\n    assert f(4) == 8\n"}])
    write("infilling_right.jsonl", [{"task_id": "x", "completion": "    b = 2 * a\n"}, {"task_id": "x", "completion": "    b = a\n"}])
    report, _ = evaluate("--task", "programs", "--data", "infilling.jsonl", "--solutions", "infilling_right.jsonl", "--k", "1,2")
    ok(report["pass"]["pass@1"]["value"] == 0.5 and report["pass"]["pass@2"]["value"] == 1, "infilling: one of two passes")


def checkers():
    write("sums.jsonl", [{"task_id": "a", "prompt": "1+1=", "answer": "2"}, {"task_id": "b", "prompt": "2+2=", "answer": "4"}])
    write("answers.jsonl", [{"task_id": "a", "completion": " 2\n"}, {"task_id": "b", "completion": "5"}])
    (SCRATCH / "check.lua").write_text("return text:match('^%s*(.-)%s*$') == row.answer, 'seen'\n")
    words = ("--task", "answers", "--data", "sums.jsonl", "--solutions", "answers.jsonl")
    report, _ = evaluate(*words, "--checker", "check.lua")
    ok(report["pass"]["pass@1"]["value"] == 0.5, "a Lua checker accepts one of two")
    kept = (*words, "--checker", "check.lua", "--out", "kept.jsonl")
    evaluate(*kept)
    ok(evaluate(*kept)[0]["resumed"] == 2, "results are kept")
    (SCRATCH / "check.lua").write_text("return true\n")
    report, done = evaluate(*kept)
    ok(report["pass"]["pass@1"]["value"] == 1 and report["scored_again"] == 2, f"another checker scores the completions again: {report}")
    ok("2 completions of kept.jsonl are scored again by another checker" in done.stderr, f"and a line says so: {done.stderr}")
    rows = [json.loads(line) for line in (SCRATCH / "kept.jsonl").read_text().splitlines()]
    ok([row["passed"] for row in rows[1:]] == [True, True] and rows[0]["settings"] == report["settings"], f"the file is of the new checker: {rows}")
    report, done = evaluate(*kept)
    ok(report["scored_again"] == 0 and report["resumed"] == 2 and "again" not in done.stderr, f"once: {report}")
    (SCRATCH / "check.lua").write_text("return text:match('^%s*(.-)%s*$') == row.answer, 'seen'\n")
    report, _ = evaluate(*kept, "--limit", "1")
    ok(report["samples"] == 1 and report["scored_again"] == 1, f"of the rows of the limit: {report}")
    report, done = evaluate(*kept, "--limit", "1")
    ok(report["resumed"] == 1 and report["scored_again"] == 0 and "again" not in done.stderr, f"which are scored once: {report} {done.stderr}")
    report, _ = evaluate(*kept)
    ok((report["samples"], report["resumed"], report["scored_again"]) == (2, 2, 1), f"the other row keeps its completion: {report}")
    ok(report["pass"]["pass@1"]["value"] == 0.5 and len((SCRATCH / "kept.jsonl").read_text().splitlines()) == 3, f"one line a row: {report}")
    write("other_answers.jsonl", [{"task_id": "a", "completion": "2"}])
    said = evaluate(*kept, "--solutions", "other_answers.jsonl", code=1)[1].stderr
    ok("solutions" in said, f"other completions are refused: {said}")
    (SCRATCH / "evil.lua").write_text("return io.open('secret.txt') ~= nil\n")
    evaluate(*words, "--checker", "evil.lua", code=1)
    evaluate(*words, code=2)


def failing_checkers():
    """A checker that fails on a row is an error of that row; the mended checker scores the same completions."""
    words = ("--task", "answers", "--data", "sums.jsonl", "--solutions", "answers.jsonl", "--checker", "fails.lua", "--out", "fails.jsonl")
    right = "return text:match('^%s*(.-)%s*$') == row.answer\n"
    for fault, says in (("if row.task_id == 'b' then error('no number') end ", "no number"), ("if row.task_id == 'b' then return 5 end ", "no boolean"),
                        ("if row.task_id == 'b' then while true do end end ", "limit")):
        (SCRATCH / "fails.lua").write_text(fault + right)
        report, done = evaluate(*words)
        errors = report.get("checker_errors", {})
        ok(report["samples"] == 2 and report["pass"]["pass@1"]["value"] == 0.5 and errors.get("rows") == 1 and errors.get("counted_as") == "not passed",
           f"{fault}: the other row counts: {report}")
        ok("the checker failed on 1 of 2 rows, which count as not passed; first: b: " in done.stderr and says in done.stderr, f"{done.stderr}")
        rows = [json.loads(line) for line in (SCRATCH / "fails.jsonl").read_text().splitlines()[1:]]
        ok("error" not in rows[0] and says in rows[1]["error"] and rows[1]["passed"] is False, f"the row has the error: {rows}")
    done = program.run("eval", *words)
    ok(done.returncode == 0 and re.search("checker errors +1 of 2, counted as not passed", done.stdout), f"shown with the score: {done.stdout}")
    (SCRATCH / "fails.lua").write_text(right.replace("row.answer", "'5'"))
    report, done = evaluate(*words)
    ok("checker_errors" not in report and report["scored_again"] == 2 and report["pass"]["pass@1"]["value"] == 0.5, f"mended: {report}")
    (SCRATCH / "fails.lua").write_text("return text ==\n")
    said = evaluate(*words, code=1)[1].stderr
    ok("fails.lua:" in said and "near" in said, f"a script that Lua cannot read ends the command: {said}")
    (SCRATCH / "fails.lua").write_text("return nothing.x\n")
    report, done = evaluate(*words, code=1)
    ok(report["checker_errors"]["rows"] == 2, f"a checker that fails on every row is a failure: {report}")
    # The file of results is a file of solutions, with its samples in order.
    report, _ = evaluate("--task", "answers", "--data", "sums.jsonl", "--solutions", "fails.jsonl", "--checker", "check.lua")
    ok(report["samples"] == 2 and report["pass"]["pass@1"]["value"] == 0.5, f"--solutions takes a file of --out: {report}")
    write("unknown.jsonl", [{"task_id": name, "completion": "2"} for name in "axyz"])
    said = evaluate("--task", "answers", "--data", "sums.jsonl", "--solutions", "unknown.jsonl", "--checker", "check.lua", code=1)[1].stderr
    ok('3 of 4 tasks are not in sums.jsonl: the first has task_id "x"' in said, f"completions of unknown tasks: {said}")
    evaluate("--task", "answers", "--data", "sums.jsonl", "--solutions", "answers.jsonl", "--checker", "check.lua", "--limit", "1")
    # Programs are run again with other limits.
    write("slow.jsonl", [{"task_id": "s", "prompt": "def f():\n", "entry_point": "f", "test": "def check(f):\n    f()\n"}])
    write("slow_solutions.jsonl", [{"task_id": "s", "completion": "    import time\n    time.sleep(2)\n"}])
    words = ("--task", "programs", "--data", "slow.jsonl", "--solutions", "slow_solutions.jsonl", "--out", "slow_out.jsonl")
    ok(evaluate(*words, "--seconds", "1")[0]["pass"]["pass@1"]["value"] == 0, "too slow")
    report, done = evaluate(*words, "--seconds", "9")
    ok(report["pass"]["pass@1"]["value"] == 1 and report["scored_again"] == 1 and "other limits" in done.stderr, f"not too slow: {report} {done.stderr}")


def other_limits(model, words, every):
    """One file of results, with limits in any order: each report is that of its own rows."""
    for limits in ((3, 8, 0, 5), (20, 3, 24, 0)):
        (SCRATCH / "limits.jsonl").unlink(missing_ok=True)
        seen = 0
        for limit in limits:
            fresh = every if limit == 0 else evaluate(model, *words, "--limit", str(limit))[0]
            report, _ = evaluate(model, *words, "--limit", str(limit), "--out", "limits.jsonl")
            rows = fresh["rows"]
            ok(report["rows"] == rows and report["resumed"] == min(seen, rows), f"limit {limit} of {limits}: {report}")
            same = all(abs(report[key] - fresh[key]) <= 1e-6 * abs(fresh[key]) for key in ("tokens", "bytes", "nats_per_token", "nats_per_token_error", "bits_per_byte"))
            ok(same, f"limit {limit} of {limits} as without a file: {report} {fresh}")
            seen = max(seen, rows)


def models():
    (SCRATCH / "corpus").write_text("\n".join(LINES) + "\n")
    for out, words in (("masked", ()), ("causal", ("--objective", "ar"))):
        done = program.run("train", "--data", "corpus", "--out", out, "--rows", "line", "--layers", "2", "--hidden", "64", "--vocab", "300",
                           "--length", "48", "--batch", "8", "--steps", "60", "--lr", "0.003", "--loader.epochs", "0", *words)
        ok(done.returncode == 0, f"a run to score: {done.stderr[-200:]}")
    counted = {}
    for model, objective in (("masked", "mdlm"), ("causal", "ar")):
        words = (model, "corpus", "--row-length", "48", "--limit", "24", "--out", model + ".jsonl")
        report, _ = evaluate(*words)
        ok(report["settings"]["objective"] == objective and 0 < report["nats_per_token"] < 6 and report["rows"] == 24, f"{model}: {report}")
        ok(abs(report["perplexity"] - math.exp(report["nats_per_token"])) < 1e-9, "perplexity is exp of the loss")
        bits = report["nats_per_token"] * report["tokens"] / report["bytes"] / math.log(2)
        ok(abs(report["bits_per_byte"] - bits) < 1e-9 and report["bits_per_byte_error"] > 0, "bits per byte and their error")
        counted[model] = report["bytes"]
        every, _ = evaluate(model, "corpus", "--row-length", "48")
        plain = sum(len(line) for line in LINES)  # special tokens are no text; "ar" is given the first token of each line
        ok(every["bytes"] == plain if model == "masked" else plain * 0.6 < every["bytes"] < plain, f"{every['bytes']} of {plain} bytes")
        # What was interrupted in the middle of a line goes on there and gives the same numbers.
        lines = (SCRATCH / (model + ".jsonl")).read_text().splitlines(keepends=True)
        (SCRATCH / (model + ".jsonl")).write_text("".join(lines[:2]) + lines[2][:20])
        again, _ = evaluate(*words)
        ok(again.pop("resumed") == 1 and report.pop("resumed") == 0 and again == report, "resumed after one of 24 rows")
        _, done = evaluate(model, "corpus", "--row-length", "24", "--out", model + ".jsonl", code=1)
        ok("row_length is 48, here 24" in done.stderr, "results of other settings are refused")
        other_limits(model, words[1:4], every)
        write("questions.jsonl", [{"prompt": f"line {i}: the cat sat on the", "choices": [" mat and dog", " zqx jvk wpf"], "answer": 0}
                                  for i in range(6)])
        _, done = evaluate(model, "questions.jsonl", code=2)
        ok("--task choices" in done.stderr, f"rows of another task: {done.stderr[-200:]}")
        for limit in ("4", "2"):
            report, _ = evaluate("--task", "choices", model, "questions.jsonl", "--limit", limit, "--out", f"choices-{model}.jsonl")
            ok(report["questions"] == int(limit), f"choices with limit {limit}: {report}")
        report, _ = evaluate("--task", "choices", model, "questions.jsonl", "--out", f"choices-{model}.jsonl")
        ok(report["questions"] == 6 and report["resumed"] == 4, f"choices go on: {report}")
        report, _ = evaluate("--task", "choices", model, "questions.jsonl")
        far = "".join(json.dumps({"prompt": "p", "choices": ["a", "b"], "answer": 0, "note": os.urandom(2000).hex()}) + "\n" for _ in range(200))
        packed = gzip.compress((SCRATCH / "questions.jsonl").read_bytes() + far.encode(), mtime=0)
        for name, content, more, said in (("whole.gz", packed, ["--limit", "7"], None), ("cut.gz", packed[:-9], ["--limit", "2"], None),
                                          ("cut.gz", packed[:-9], [], "damaged gzip data")):  # rows after --limit are not read
            (SCRATCH / name).write_bytes(content)
            done = program.run("eval", "--task", "choices", model, name, "--json", *more)
            ok((done.returncode == 0) == (said is None) and (said or "") in done.stderr, f"{name} {more}: {done.stderr[-200:]}")
        ok(report["accuracy"] == 1 and report["questions"] == 6, f"{model} chooses what it was trained on: {report}")
    # Rows of one token again and again differ in their noise alone, also between batches.
    long = ["a" * 80] * 6000
    (SCRATCH / "long").write_text("\n".join(long))  # 486 kB
    words = ("masked", "long", "--row-length", "48", "--limit", "2", "--out", "long.jsonl")
    evaluate(*words)
    long[3000] = "b" * 80
    (SCRATCH / "long").write_text("\n".join(long))
    ok("data_checksum" in evaluate(*words, code=1)[1].stderr, "a change in the middle of a file is noticed")
    (SCRATCH / "same").write_text("a" * 2000)
    evaluate("masked", "same", "--row-length", "48", "--limit", "16", "--out", "same.jsonl")
    sums = [json.loads(line)["sum"] for line in (SCRATCH / "same.jsonl").read_text().splitlines()[1:]]
    ok(len(sums) == 16 and len(set(sums)) > 12, f"each row has noise of its own: {sums}")
    # Of the same rows and tokens: a next-token loss does not count the first token of a text, nor its bytes.
    ok(0.5 < counted["causal"] / counted["masked"] < 1, f"bytes of counted tokens: {counted}")
    report, _ = evaluate("--task", "programs", "--model", "masked", "--data", "infilling.jsonl", "--samples", "2", "--length", "8",
                         "--steps", "4", "--out", "of_model.jsonl")
    ok(report["samples"] == 2 and report["pass"]["pass@1"]["value"] == 0, "a model fills a hole and is judged")
    rows = [json.loads(line) for line in (SCRATCH / "of_model.jsonl").read_text().splitlines()[1:]]
    ok(all(re.search(r"Error|ended|exit", row["result"]) for row in rows), f"why it fails: {[row['result'] for row in rows]}")
    report, _ = evaluate("--task", "answers", "--model", "causal", "--data", "sums.jsonl", "--checker", "check.lua", "--length", "4",
                         "--policy", "autoregressive")
    ok(report["samples"] == 2, "answers of a causal model")
    settings = report["settings"]
    ok((settings["policy"], settings["length"], settings["seed"]) == ("autoregressive", 4, 0) and "temperature" in settings["decoder"],
       f"every setting of the score: {settings}")
    done = program.run("eval", "--task", "answers", "causal", "sums.jsonl", "--checker", "check.lua", "--length", "4")
    ok(re.search(r"\nsettings\n  task +answers\n(  .*\n)*  policy +autoregressive\n(  .*\n)*    temperature +0\n", done.stdout),
       f"one block of settings: {done.stdout}")
    words = ("--task", "answers", "--model", "causal", "--data", "sums.jsonl", "--checker", "check.lua", "--length", "4", "--out", "once.jsonl")
    evaluate(*words)
    _, done = evaluate(*words, "--temperature", "0.5", code=1)
    ok("decoder.temperature is 0" in done.stderr, f"another temperature is another evaluation: {done.stderr[-300:]}")
    # A completion is the text of dllm generate, and a filled hole that of dllm infill.
    write("twice.jsonl", [{"prompt": LINES[0][:12]}, {"prompt": LINES[0][:12], "suffix": LINES[0][20:]}])
    evaluate("--task", "answers", "--model", "masked", "--data", "twice.jsonl", "--checker", "check.lua", "--length", "6", "--out", "twice_out.jsonl")
    texts = [json.loads(line)["completion"] for line in (SCRATCH / "twice_out.jsonl").read_text().splitlines()[1:]]
    made = json.loads(program.run("generate", "masked", LINES[0][:12], "--length", "6", "--json").stdout)
    filled = json.loads(program.run("infill", "masked", LINES[0][:12] + "<mask:6>" + LINES[0][20:], "--json").stdout)
    ok(texts == [made["completion"], filled["holes"][0]], f"{texts}, generate {made}, infill {filled}")


def trained_objectives():
    """auto takes the objective and the blocks of the run; a loss that is no bound of a likelihood gives way to mdlm."""
    for trained, scored, words in (("uniform", "uniform", ()), ("bd3lm", "bd3lm", ("--objective.block-length", "8")), ("nano", "mdlm", ()),
                                   ("llada_sft", "mdlm", ())):
        done = program.run("train", "--data", "corpus", "--out", trained, "--rows", "line", "--layers", "1", "--hidden", "64", "--vocab", "300",
                           "--length", "48", "--batch", "4", "--steps", "4", "--objective", trained, *words)
        ok(done.returncode == 0, f"a run of {trained}: {done.stderr[-200:]}")
        words = (trained, "corpus", "--row-length", "48", "--limit", "8")
        report, _ = evaluate(*words)
        ok(report["settings"]["objective"] == scored and 0 < report["nats_per_token"] < 20, f"{trained} is scored by {scored}: {report}")
        other, _ = evaluate(*words, "--objective", "mdlm")
        ok(other["settings"]["objective"] == "mdlm" and (other["nats_per_token"] == report["nats_per_token"]) == (scored == "mdlm"),
           f"{trained}: mdlm when asked for: {other['nats_per_token']}")
    done = program.run("train", "--data", "corpus", "--out", "cosine", "--rows", "line", "--layers", "1", "--hidden", "64", "--vocab", "300",
                       "--length", "48", "--batch", "4", "--steps", "4", "--schedule", "cosine")
    ok(done.returncode == 0, f"a run with another schedule: {done.stderr[-200:]}")
    report, _ = evaluate("cosine", "corpus", "--row-length", "48", "--limit", "8")
    ok(report["settings"].get("schedule") == "cosine", f"the schedule of the noise is a setting: {report['settings']}")


def first_tokens():
    """With shift 1 the first token of each text is given, in packed rows too, and a choice at the begin of a text follows bos or eos."""
    done = program.run("train", "--data", "corpus", "--out", "shifted", "--rows", "line", "--layers", "1", "--hidden", "64", "--vocab", "300",
                       "--length", "48", "--batch", "4", "--steps", "4", "--model.shift", "1")
    ok(done.returncode == 0, f"a run with shift 1: {done.stderr[-200:]}")
    lines = [LINES[0][:12], LINES[1][:16], LINES[2][:9]]
    for model in ("shifted", "causal", "masked"):
        for objective in ((), *((("--objective", each) for each in ("dream", "llada_sft", "uniform")) if model == "shifted" else ())):
            counted = []
            for name, text in (("packed", lines), *((f"alone{i}", [line]) for i, line in enumerate(lines))):
                (SCRATCH / name).write_text("\n".join(text) + "\n")
                report, done = evaluate(model, name, "--rows", "line", "--row-length", "48", *objective)
                ok("tokens" in report, f"{model} {name}: {done.stderr[-200:]}")
                counted.append((report["rows"], report["tokens"], report["bytes"]))
            alone = tuple(map(sum, zip(*counted[1:])))
            ok(counted[0] == (1, *alone[1:]), f"{model} {objective}: packed {counted[0]}, alone {counted[1:]}")
        write("begins.jsonl", [{"prompt": "", "choices": ["Q", "the king"], "answer": 1}, {"prompt": "t", "choices": ["he", "zq"], "answer": 0}])
        report, done = evaluate("--task", "choices", model, "begins.jsonl", "--out", f"begins-{model}.jsonl")
        scores = [json.loads(line)["scores"] for line in (SCRATCH / f"begins-{model}.jsonl").read_text().splitlines()[1:]]
        ok(report.get("questions") == 2 and all(score < -0.01 for each in scores for score in each),
           f"{model}: every token of a choice is scored: {scores} {done.stderr[-200:]}")


def no_likelihoods():
    """A loss that bounds no likelihood has no perplexity and no bits per byte; blocks that a model lacks are given."""
    for objective, bounds in (("dream", False), ("llada_sft", False), ("open_dllm", False), ("mdlm", True), ("uniform", True)):
        report, done = evaluate("masked", "corpus", "--row-length", "48", "--limit", "8", "--objective", objective)
        found = [key for key in ("perplexity", "bits_per_byte", "bits_per_byte_error") if key in report]
        ok(len(found) == (3 if bounds else 0) and report["nats_per_token"] > 0, f"{objective}: {found}")
        plain = program.run("eval", "masked", "corpus", "--row-length", "48", "--limit", "8", "--objective", objective)
        ok(("does not bound a likelihood" in plain.stderr) != bounds and ("perplexity" in plain.stdout) == bounds, f"{objective}: {plain.stderr}")
    words = ("masked", "corpus", "--row-length", "48", "--limit", "8", "--objective")
    _, done = evaluate(*words, "bd3lm", code=1)
    ok("--block-length" in done.stderr, f"bd3lm without blocks: {done.stderr}")
    four, eight = (evaluate(*words, "bd3lm", "--block-length", size)[0]["nats_per_token"] for size in ("4", "8"))
    ok(four != eight, f"--block-length sets the blocks: {four} {eight}")
    # What the score depends on is in the settings, so a file of results never mixes two of them.
    for task, scored, kept in (("text", words[:6], "blocks.jsonl"), ("choices", ("masked", "questions.jsonl"), "blocks_of_choices.jsonl")):
        of_blocks = (*scored, "--task", task, "--objective", "bd3lm", "--out", kept)
        ok(evaluate(*of_blocks, "--block-length", "4")[0]["settings"]["block_length"] == 4, "the settings have the blocks")
        _, done = evaluate(*of_blocks, "--block-length", "8", code=1)
        ok("block_length is 4, here 8" in done.stderr, f"{task} with other blocks: {done.stderr}")
    of_rows = (*words[:6], "--out", "row_options.jsonl")
    ok("dataset" not in evaluate(*of_rows)[0]["settings"], "options at their defaults are left out")
    for option, value in (("append-eos", "false"), ("parse-special", "true"), ("format", "text"), ("bad-rows", "skip"), ("text-key", "body")):
        _, done = evaluate(*of_rows, "--dataset." + option, value, code=1)
        ok(f"dataset is null, here {{\"{option.replace('-', '_')}\":" in done.stderr, f"other rows, --dataset.{option}: {done.stderr}")
    _, done = evaluate(*words, "mdlm", "--block-length", "8", code=2)
    ok("decodes nothing" in done.stderr, f"mdlm has no blocks: {done.stderr}")
    write("tasks.jsonl", [{"task_id": "a", "prompt": "def f():\n", "entry_point": "f", "test": "def check(f):\n    f()\n"}])
    for k, samples, code in (("5", "2", 2), ("1,3", "2", 2), ("2", "2", 0)):
        _, done = evaluate("masked", "tasks.jsonl", "--task", "programs", "--k", k, "--samples", samples, "--length", "8", "--steps", "2", code=code)
        ok(code == 0 or "completions of a task, and there are 2" in done.stderr, f"--k {k}: {done.stderr}")


def nothing_counts():
    """A mean over no token is not a score, and one row has no standard error."""
    report, _ = evaluate("masked", "corpus", "--row-length", "48", "--limit", "1")
    ok("nats_per_token_error" not in report and "bits_per_byte_error" not in report and report["bits_per_byte"] > 0, f"one row: {report}")
    for words in (("causal", "corpus", "--row-length", "1", "--limit", "4"), ("causal", "corpus", "--row-length", "1", "--limit", "4", "--out", "none.jsonl")):
        report, done = evaluate(*words, code=1)
        ok("tokens" not in report and "4 rows counts in the loss" in done.stderr and "--row-length of 2" in done.stderr, f"no token: {report} {done.stderr}")
    (SCRATCH / "checker.lua").write_text("return true\n")
    tasks = {"answers": ({"prompt": "a"}, ("--checker", "checker.lua", "--length", "4")),
             "programs": ({"prompt": "def f():\n", "entry_point": "f", "test": "def check(f):\n    f()\n"}, ("--length", "4")),
             "choices": ({"prompt": "a", "choices": ["b", "c"], "answer": 0}, ())}
    write("solutions.jsonl", [{"task_id": "x", "completion": "a"}])
    for task, (row, words) in tasks.items():
        for ids, same in ((("x", "y", "x"), 'rows 1 and 3 have the same task_id "x"'), ((7, "y", "7"), 'rows 1 and 3 have the same task_id "7"'),
                          (("1", None), 'rows 1 and 2 have the same task_id "1"')):
            write("same_ids.jsonl", [row | ({} if name is None else {"task_id": name}) for name in ids])
            for source in (("--model", "masked"), ("--solutions", "solutions.jsonl")):
                if source[0] == "--solutions" and task == "choices":
                    continue
                own = words[:2] if source[0] == "--solutions" and task == "answers" else () if source[0] == "--solutions" else words
                report, done = evaluate("--task", task, *source, "--data", "same_ids.jsonl", *own, code=1)
                ok("settings" not in report and same in done.stderr, f"{task}, ids {ids}: {report} {done.stderr}")


def one_writer():
    words = ("eval", "masked", "corpus", "--row-length", "48", "--limit", "3", "--out", "one_writer.jsonl")
    program.has_one_writer("one_writer.jsonl", *words)


program.empty_folder()
limits()
human_eval()
other_formats()
checkers()
failing_checkers()
models()
trained_objectives()
first_tokens()
no_likelihoods()
nothing_counts()
one_writer()
print(f"{program.failures} failures")
sys.exit(program.failures > 0)
