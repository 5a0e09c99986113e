"""Makes parquet/*.parquet and parquet/*.jsonl: pip install pyarrow; python make_parquet.py

Rows of text, of a prompt with its response, and conversations, each with every codec, encoding and version of page that is
read. NAME-*.parquet has the rows of NAME.jsonl. Files stay below 4 KB.
"""
import json
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = pathlib.Path(__file__).parent / "parquet"
FOLDER.mkdir(exist_ok=True)

WORDS = "the cat sat on the mat and the dog sat on the log while w\u00f6rld \U0001f600 went by".split()
TEXT = [{"text": " ".join(WORDS[i % 5:i % 13 + 5]) + (f" {i}" if i % 3 else ""), "id": i} for i in range(40)]
ANSWER = [{"prompt": f"{i} + {i % 4} = ", "response": str(i + i % 4), "note": None} for i in range(30)]
MESSAGES = [{"messages": [{"role": "user" if j % 2 == 0 else "assistant", "content": " ".join(WORDS[j:j + i % 4 + 1])}
                          for j in range(i % 5)]} for i in range(20)]
MESSAGE = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
SCHEMAS = {"text": pa.schema([pa.field("id", pa.int64()), pa.field("text", pa.string())]),
           "answer": pa.schema([pa.field("prompt", pa.string(), nullable=False), pa.field("response", pa.large_string()),
                                pa.field("note", pa.string())]),
           "messages": pa.schema([("messages", MESSAGE)])}


def write(name, rows, variant, **options):
    table = pa.Table.from_pylist(rows, SCHEMAS[name])
    options = {"row_group_size": 16, "store_schema": False, "write_statistics": False} | options
    path = FOLDER / f"{name}-{variant}.parquet"
    pq.write_table(table, path, **options)
    assert path.stat().st_size < 4096, (path, path.stat().st_size)


for name, rows in (("text", TEXT), ("answer", ANSWER), ("messages", MESSAGES)):
    (FOLDER / f"{name}.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    write(name, rows, "plain", compression="none", use_dictionary=False, row_group_size=64, data_page_size=200,
          write_batch_size=7)
    write(name, rows, "snappy", compression="snappy", write_page_checksum=True)
    write(name, rows, "gzip-v2", compression="gzip", data_page_version="2.0", row_group_size=64)
    write(name, rows, "zstd", compression="zstd")
columns = {"text": ["text"], "answer": ["prompt", "response"],
           "messages": ["messages.list.element.role", "messages.list.element.content"]}
for name, rows in (("text", TEXT), ("answer", ANSWER), ("messages", MESSAGES)):
    for encoding in ("DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"):
        write(name, rows, encoding.lower(), compression="snappy", use_dictionary=False, row_group_size=64,
              column_encoding={column: encoding for column in columns[name]})
