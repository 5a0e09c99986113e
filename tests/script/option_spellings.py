"""Every option of every command is printed with "-" and accepted with "_" too.   option_spellings.py DLLM SCRATCH

--help, the manual page and the completions of all shells print no option with "_". With --help behind them options are
looked up and their values are not used, so one run of a command takes all of its options in a spelling.
"""
import json
import pathlib
import re
import sys

from cli_options import Program

DLLM, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2])
program = Program(DLLM, SCRATCH)
ok, run = program.ok, program.run
UNDERSCORE = re.compile(r"--[a-z0-9.-]*_[a-z0-9._-]*")


def options_of(command):
    """[(name, takes a value)] of every name that --help lists."""
    found = []
    for line in run(command, "--help").stdout.splitlines():
        names = re.match(r" {1,6}((?:-h, )?--[^ ,]+(?:, --[^ ,]+)*)( (?:N|X|BOOL|TEXT|A,B))?( |$)", line)
        if names:
            found += [(name, names.group(2) is not None) for name in re.findall(r"--[^ ,]+", names.group(1))]
    return found


program.empty_folder()
commands = re.findall(r"^  ([a-z-]+) ", run("help").stdout, re.M)
commands = [command for command in commands if command != "help"]
ok(len(commands) > 15, f"{len(commands)} commands")
count = 0
for command in commands:
    names = options_of(command)
    spelled = [(name, value) for name, value in names if "-" in name[2:]]
    ok(len({name for name, _ in names}) == len(names), f"{command}: {len(names)} names, each once")
    for spelling, shape in (("-", lambda name: name), ("_", lambda name: "--" + name[2:].replace("-", "_"))):
        words = [word for name, value in spelled for word in ([shape(name) + "=1"] if value else [shape(name)])]
        done = run(command, *words, "--help")
        ok(done.returncode == 0, f"{command}: {len(words)} options with {spelling}: {done.stderr[-200:]}")
    count += len(spelled)
    ok(not UNDERSCORE.findall(run(command, "--help").stdout), f"{command}: --help prints none with _")
ok(count > 200, f"{count} names have a -")
for words in ("--man", "--bash", "--zsh", "--fish"):
    printed = run("help", words).stdout.replace("\\-", "-")
    found = UNDERSCORE.findall(printed) if words != "--fish" else re.findall(r" -l [a-z0-9.-]*_\S*", printed)
    ok(printed and not found, f"help {words}: {found[:3]}")
wrong = run("generate", "--blok_length", "4")
ok(wrong.returncode == 2 and "did you mean --block-length?" in wrong.stderr, wrong.stderr)

# Names that other programs use, and a name of two options.
for command, typed, own in (("train", "--learning-rate", "--lr"), ("train", "--batch_size", "--batch"), ("train", "--max-steps", "--steps"),
                            ("train", "--warmup-steps", "--warmup"), ("train", "--lr-scheduler-type", "--trainer.schedule"),
                            ("train", "--lora-r", "--lora"), ("generate", "--max-new-tokens", "--length"), ("eval", "--dataset", "--data")):
    wrong = run(command, typed, "1")
    ok(wrong.returncode == 2 and f"did you mean {own}?" in wrong.stderr, f"{command} {typed}: {wrong.stderr}")
wrong = run("train", "--schedule", "wsd")
ok(wrong.returncode == 2 and "--trainer.schedule is another option" in wrong.stderr, wrong.stderr)

# Options after a script are its words. One that would limit the script is refused there.
(SCRATCH / "free.lua").write_text("return #arg")
for words, code in ((("--sandbox", "files"), 2), (("--sandbox=pure",), 2), (("--lua.sandbox", "files"), 2), (("--steps", "3"), 0)):
    done = run("run", "free.lua", *words)
    ok(done.returncode == code and (code == 0 or "dllm run --sandbox files SCRIPT" in done.stderr), f"run free.lua {words}: {done.stderr}")

# What is typed and what a file of --config holds have the same names.
(SCRATCH / "text").write_text("the cat sat on the mat\n" * 60)
small = ("train", "--data", "text", "--layers", "1", "--hidden", "64", "--vocab", "270", "--length", "16", "--batch", "2",
         "--steps", "1", "--eval-batches", "0", "--json", "--fresh")
for number, settings in enumerate(({"save-every": 7}, {"save_every": 7}, {"trainer": {"save_every": 7}}, {"trainer.save-every": 7})):
    (SCRATCH / "settings.json").write_text(json.dumps(settings))
    done = run(*small, "--out", "run", "--config", "settings.json")
    got = json.loads(done.stdout.splitlines()[0])["options"]["trainer"]["save_every"] if done.returncode == 0 else done.stderr
    ok(got == 7, f"{settings}: {got}")

# What the end of a run says to type is one that a shell reads.
done = run("train", "--data", "text", "--layers", "1", "--hidden", "64", "--vocab", "270", "--length", "16", "--batch", "2",
           "--steps", "2", "--warmup", "9", "--eval-batches", "0", "--out", "my run's")
ok("--model 'my run'\\''s'" in done.stderr, f"the next command: {done.stderr[-300:]}")
ok("warm-up takes 9 steps of 2" in done.stderr, f"a warm-up without an end: {done.stderr[-600:]}")
sys.exit(1 if program.failures else 0)
