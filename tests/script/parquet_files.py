"""Parquet files of pyarrow give the tokens of JSON lines with the same rows.   parquet_files.py DLLM SCRATCH [PYTHON]

Thousands of rows, some of them long, in several row groups and pages. Needs pyarrow in the running Python or in PYTHON
(python3 -m venv build/parquet_venv && build/parquet_venv/bin/pip install pyarrow); else it is skipped.
"""
import importlib.util
import json
import os
import pathlib
import random
import sys

if importlib.util.find_spec("pyarrow") is None:
    other = sys.argv[3] if len(sys.argv) > 3 else ""
    if other and os.path.exists(other) and not sys.prefix.endswith("parquet_venv"):
        os.execv(other, [other, "-B", *sys.argv])
    print("skipped: pyarrow is not installed")
    sys.exit(77)

import pyarrow as pa
import pyarrow.parquet as pq

from cli_options import LINES, Program

DLLM, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2])
program = Program(DLLM, SCRATCH)
ok = program.ok
draw = random.Random(12)
TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"


def text():
    return " ".join(draw.choice(LINES) for _ in range(draw.choice([0, 1, 1, 2, 3, 40]))) + draw.choice(["", "\u00e9", "\U0001f600", "\"\\\n"])


def messages():
    return [{"role": "user" if i % 2 == 0 else "assistant", "content": text()} for i in range(draw.randrange(1, 7))]


ROWS = {"text": [{"text": text()} for _ in range(3000)],
        "answer": [{"prompt": text(), "response": text()} for _ in range(2000)],
        "messages": [{"messages": messages()} for _ in range(1000)]}
COLUMNS = {"text": ["text"], "answer": ["prompt", "response"],
           "messages": ["messages.list.element.role", "messages.list.element.content"]}


def tokens(name):
    (SCRATCH / (name + ".tok")).unlink(missing_ok=True)
    done = program.run("tokenize", name, name + ".tok", "--model", "model")
    ok(done.returncode == 0, f"{name} is tokenized {done.stderr[-300:] if done.returncode else ''}")
    return (SCRATCH / (name + ".tok")).read_bytes() if done.returncode == 0 else None


def variants(columns):
    for codec in ("none", "snappy", "gzip", "zstd"):
        for version in ("1.0", "2.0"):
            for size in (500, 1 << 20):
                yield {"compression": codec, "data_page_version": version, "data_page_size": size, "row_group_size": 700,
                       "write_batch_size": 64}
    yield {"dictionary_pagesize_limit": 3000, "write_page_checksum": True}
    for encoding in ("DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"):
        yield {"use_dictionary": False, "column_encoding": {column: encoding for column in columns}, "data_page_size": 5000}


program.empty_folder()
(SCRATCH / "model").mkdir()
(SCRATCH / "corpus.txt").write_text("\n".join(LINES))
done = program.run("tokenizer-train", "--data", "corpus.txt", "--out", "model/tokenizer.json", "--vocab", "300")
ok(done.returncode == 0, f"a tokenizer is trained {done.stderr}")
(SCRATCH / "model" / "chat_template.jinja").write_text(TEMPLATE)
for name, rows in ROWS.items():
    (SCRATCH / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    wanted = tokens(f"{name}.jsonl")
    table = pa.Table.from_pylist(rows)
    for options in variants(COLUMNS[name]):
        pq.write_table(table, SCRATCH / f"{name}.parquet", **options)
        got = tokens(f"{name}.parquet")
        ok(got is not None and got == wanted, f"{name}: the tokens of the JSON lines, {options}")
sys.exit(program.failures != 0)
