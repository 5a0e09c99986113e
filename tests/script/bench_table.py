"""bench/table without any measurement: sides that are absent, the text of the table, the picture of growth.
   bench_table.py ROOT SCRATCH"""
import importlib.machinery
import importlib.util
import pathlib
import sys
import types
import xml.dom.minidom

ROOT, SCRATCH = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
SCRATCH.mkdir(parents=True, exist_ok=True)
loader = importlib.machinery.SourceFileLoader("bench_table_script", str(ROOT / "bench" / "table"))
table = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
loader.exec_module(table)
sides, growth = table.sys.modules["sides"], table.growth
failures = 0


def ok(condition, what):
    global failures
    print(("ok   " if condition else "FAIL ") + what)
    failures += not condition


def absent(make):
    try:
        make()
    except sides.Absent as reason:
        return str(reason)
    return ""


def program(name, text):
    file = SCRATCH / name
    file.write_text("#!/bin/sh\n" + text)
    file.chmod(0o755)
    return file


# A program in the place of dllm that has no option arithmetic, and one that is broken.
figures = '{"median_seconds": 2.0, "process_peak_bytes": 5000000, "peak_share": 0.5, "clock_peak_share": 0.625}'
dllm = program("dllm", f"case \"$*\" in *--arithmetic*) echo 'dllm bench: --arithmetic: engine has no option' >&2; exit 2;; esac\necho '{figures}'\n")
own = sides.Own(dllm, ("step",), 2, "int8")
ok(own.turn() == 2.0 and own.arithmetic == "f32" and "--arithmetic" not in own.command, "an engine without int8 computes in f32, and the row says so")
broken = program("broken", "echo no model >&2\nexit 1\n")
ok("no model" in absent(sides.Own(broken, ("step",), 2).turn), "a failure has its first line")
ok("llama.sh" in absent(lambda: sides.Llama(SCRATCH / "llama-bench", "f32", 256, 2)), "llama.cpp is absent: how to build it")
ok("has no" in absent(lambda: sides.Talker("PyTorch", sys.executable, "x.py", (), "no_such_package")), "a package that is absent is named")
ok("bench_decode" in absent(lambda: sides.Spd(SCRATCH, "kv_fast", None)), "bench_decode is absent: how to build it")
echo = SCRATCH / "echo.py"
echo.write_text("import sys\nprint('ready', flush=True)\nfor line in sys.stdin: print('0.5 0.25', flush=True)\n")
talker = sides.Talker("peer", sys.executable, echo, (), "json")
ok(talker.turn() == 0.5 and talker.memory > 1e6, "a peer's seconds and its memory")
talker.close()

# A whole row, whose peer is absent, and its text.
(SCRATCH / "bin").mkdir(exist_ok=True)
(SCRATCH / "bin" / "dllm").unlink(missing_ok=True)
(SCRATCH / "bin" / "dllm").symlink_to(dllm)
options = types.SimpleNamespace(build=SCRATCH, llama_bench="", python=sys.executable, threads=2, turns=2)
cells = table.measure("C0", options)
text = table.table_text([cells, table.memory_row(cells)], options, 3.0)
ok("| C0 |" in text and "2.00 s (dllm, arithmetic f32)" in text and "absent: build it" in text and "50 % (62 %)" in text, "a row whose peer is absent")
ok("| T3 |" in text and "5 MB" in text and "**busy**" in text, "memory, and that the machine was busy")
table.PAGE = SCRATCH / "page"
table.PAGE.write_text(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n")
table.write("new")
ok(table.PAGE.read_text() == f"before\n{table.BEGIN}\nnew\n{table.END}\nafter\n", "--write replaces what stands between the markers")
ok(table.BEGIN in (ROOT / "docs" / "performance.md").read_text(), "the page has the markers")

ok(abs(growth.slope([(n, 3 * n**2) for n in (1, 2, 4)]) - 2) < 1e-9 and growth.slope([(1, 1)]) is None, "slopes")
panels = [{"title": "a < b", "axis": "rows", "measured": [(1, 0.5), (1024, 2.0)], "work": [(1, 0.4), (1024, 2.0)]},
          {"title": "one", "axis": "threads", "measured": [(1, 0.5)], "work": [(1, 0.5)]}]
picture = xml.dom.minidom.parseString(growth.picture(panels, "note"))
ok(len(picture.getElementsByTagName("polyline")) == 4 and len(picture.getElementsByTagName("circle")) == 3, "a picture of two panels")
sys.exit(1 if failures else 0)
