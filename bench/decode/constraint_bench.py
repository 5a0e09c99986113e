#!/usr/bin/env python3
"""What a step of decoding costs under a constraint, for a vocabulary of a real tokenizer.

    DLLM_LIBRARY=build/release/lib/libdllm.so PYTHONPATH=bindings/python bench/decode/constraint_bench.py TOKENIZER [--turns 5] [--hidden 256] [--layers 2] [--kinds any,counts]

TOKENIZER is a folder with tokenizer.json. The model is random and small, so that the head and the constraint are most of a step. Prints, for each kind of
constraint, the milliseconds of a step by the clock and by the processor: medians of turns in which the kinds take turns. On a busy
machine compare the processor times. A step under a constraint has another pass shape, so `any` (a pattern that allows every token) shows what the
shape costs by itself.
"""
import argparse
import statistics
import time

import dllm

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("tokenizer")
parser.add_argument("--turns", type=int, default=5)
parser.add_argument("--hidden", type=int, default=256)
parser.add_argument("--layers", type=int, default=2)
parser.add_argument("--kinds", default="", help="kinds to measure, with commas between them; default: all")
parser.add_argument("--length", type=int, default=48)
parser.add_argument("--threads", type=int, default=2)
given = parser.parse_args()

tokenizer = dllm.Tokenizer(given.tokenizer)
vocabulary = tokenizer.size() if callable(getattr(tokenizer, "size", None)) else len(tokenizer)
engine = dllm.Engine(threads=given.threads)
model = dllm.Model.new({"model_type": "a2d-llama", "vocab_size": vocabulary + 1, "hidden_size": given.hidden, "num_hidden_layers": given.layers, "num_attention_heads": 4,
                        "num_key_value_heads": 4, "intermediate_size": 2 * given.hidden, "max_position_embeddings": 1024, "tie_word_embeddings": True,
                        "mask_token_id": vocabulary}, engine=engine, seed=1)
generator = dllm.Generator(model, tokenizer)
SCHEMA = {"type": "object", "required": ["name", "tags"], "properties": {
    "name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 150}, "tags": {"type": "array", "items": {"type": "string"}}}}
KINDS = {"none": {}, "any": {"regex": "(?:.|\n)*"}, "schema": {"json_schema": SCHEMA}, "counts": {"regex": "[a-z ]{170,600}"},
         "grammar": {"grammar": 'root ::= item+\nitem ::= "- " [^\\r\\n]+ "\\n"'}}
KNOWN = {row["name"] for row in dllm.schema("request")["keys"]}  # of this library
KINDS = {name: more for name, more in KINDS.items() if KNOWN.issuperset(more)}
KINDS = {name: more for name, more in KINDS.items() if not given.kinds or name in given.kinds.split(",")}


def steps(more):
    """(clock, processor) milliseconds of a step."""
    clock, processor = time.perf_counter(), time.process_time()
    written = generator.generate("a text ", length=given.length, steps=given.length // 2, policy="low_confidence", temperature=1.0, seed=3, **more)
    count = written.steps if hasattr(written, "steps") else given.length // 2
    return 1e3 * (time.perf_counter() - clock) / count, 1e3 * (time.process_time() - processor) / count


for more in KINDS.values():
    steps(more)  # compiles the patterns
rows = {name: [] for name in KINDS}
for _ in range(given.turns):
    for name, more in KINDS.items():
        rows[name].append(steps(more))
print(f"{vocabulary} tokens, {given.length} positions, hidden {given.hidden}, {given.layers} layers, {given.threads} threads, {given.turns} turns")
for name, turns in rows.items():
    clock, processor = (statistics.median(turn[i] for turn in turns) for i in (0, 1))
    print(f"{name:8} {clock:7.1f} ms by the clock, {processor:7.1f} ms of processor time")
