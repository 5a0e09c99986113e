"""Rows of every shape and format against datasets, which reads the file, and transformers, which writes the chat template."""
import csv
import json
import pathlib
import random

import datasets
import dllm
import pyarrow
import pyarrow.parquet
from compare import Refused, same
from transformers import PreTrainedTokenizerFast

datasets.disable_progress_bars()
WORDS = ["two", "cats", "sat", "ünïcødé", "中文", "👩‍👧", "don't", "42", "a,b;c", "\"quoted\"", "{x}", "[1]", "back\\slash", "tab\tbed", "<b>", "line\nbreak"]
ALPACA = ("Below is an instruction that describes a task. Write a response that appropriately completes the request.", "Below is an instruction that "
          "describes a task, paired with an input that provides further context. Write a response that appropriately completes the request.")


def text(rng: random.Random) -> str:
    return "x" + " ".join(rng.choice(WORDS) for _ in range(rng.randint(0, 6)))


def turns(rng: random.Random) -> list[str]:
    return [text(rng) for _ in range(2 * rng.randint(1, 3))]


def listed(role: str, content: str, words: tuple[str, str], texts: list[str]) -> list[dict]:
    return [{role: words[i % 2], content: said} for i, said in enumerate(texts)]


def alpaca(row: dict, more: str, answer: str) -> tuple[str, str]:
    """(given, learned), after github.com/tatsu-lab/stanford_alpaca."""
    given = row.get(more) or ""  # datasets reads an empty field of CSV as None
    middle = f"\n\n### Input:\n{given}" if given else ""
    return f"{ALPACA[bool(given)]}\n\n### Instruction:\n{row['instruction']}{middle}\n\n### Response:", row[answer]


def conversation(role: str, content: str, key: str):
    def read(row: dict) -> list[dict]:
        known = {"human": "user", "gpt": "assistant", "model": "assistant"}
        return [{"role": known.get(one[role], one[role]), "content": one[content]} for one in row[key]]
    return read


# name: a row from a generator; its meaning: a pair of texts (given, learned), or a list of messages
SHAPES = {
    "text": (lambda rng: {"id": text(rng), "text": text(rng)}, lambda row: ("", row["text"])),
    "response": (lambda rng: {"prompt": text(rng), "response": text(rng)}, lambda row: (row["prompt"], row["response"])),
    "completion": (lambda rng: {"prompt": text(rng), "completion": text(rng)}, lambda row: (row["prompt"], row["completion"])),
    "alpaca": (lambda rng: {"instruction": text(rng), "input": text(rng) if rng.random() < .5 else "", "output": text(rng)},
               lambda row: alpaca(row, "input", "output")),
    "dolly": (lambda rng: {"instruction": text(rng), "context": text(rng) if rng.random() < .5 else "", "response": text(rng)},
              lambda row: alpaca(row, "context", "response")),
    "messages": (lambda rng: {"messages": listed("role", "content", ("user", "assistant"), turns(rng))}, conversation("role", "content", "messages")),
    "sharegpt": (lambda rng: {"conversations": listed("from", "value", ("human", "gpt"), turns(rng))},
                 conversation("from", "value", "conversations")),
    "ultrachat": (lambda rng: {"data": turns(rng)},
                  lambda row: listed("role", "content", ("user", "assistant"), row["data"])),
}
FORMATS = ("jsonl", "json", "csv", "parquet")
TABLE = [(shape, form) for form in FORMATS for shape in SHAPES
         if form != "csv" or shape not in ("messages", "sharegpt", "ultrachat")]
TEMPLATES = ("chatml", "llama3", "qwen", "alpaca")


def write(path: pathlib.Path, form: str, rows: list[dict]) -> None:
    if form == "parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif form == "csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
        path.write_text("[" + ",\n".join(lines) + "]" if form == "json" else "".join(line + "\n" for line in lines), encoding="utf-8")


def ours(path: pathlib.Path, tokenizer: dllm.Tokenizer) -> list[tuple[list[int], list[int]]]:
    rows = []
    for batch in dllm.Loader(dllm.Dataset(path, tokenizer), batch=1, length=2048, pack=False, shuffle=False):
        count = int((batch["segments"] > 0).sum())
        rows.append((batch["ids"][0, :count].tolist(), batch["keep"][0, :count].tolist()))
    return rows


def theirs(meaning, tokenizer: PreTrainedTokenizerFast) -> tuple[list[int], list[int]]:
    if isinstance(meaning, tuple):
        given, learned = (tokenizer.encode(part, add_special_tokens=False) for part in meaning)
        return given + learned + [tokenizer.eos_token_id], [1] * len(given) + [0] * (len(learned) + 1)
    made = tokenizer.apply_chat_template(meaning, return_dict=True, return_assistant_tokens_mask=True)
    return made["input_ids"], [1 - learned for learned in made["assistant_masks"]]


def run_case(seed: int, folder: pathlib.Path) -> None:
    rng = random.Random(seed)
    shape, form = TABLE[seed % len(TABLE)]
    make, meaning = SHAPES[shape]
    rows = [make(rng) for _ in range(4)]
    path = folder / f"rows.{form}"
    write(path, form, rows)
    template = rng.choice(TEMPLATES)
    corpus = dllm.Dataset.of([" ".join(rng.choice(WORDS) for _ in range(40)) for _ in range(20)])
    tokenizer = dllm.Tokenizer.train(corpus, vocab_size=320, chat_template=template)
    tokenizer.save(folder)
    reference = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), **{
        key: value for key, value in json.loads((folder / "tokenizer_config.json").read_text()).items() if key != "tokenizer_class"})
    kind = {"jsonl": "json"}.get(form, form)
    read = datasets.load_dataset(kind, data_files=str(path), split="train", cache_dir=str(folder / "cache"), keep_in_memory=True)
    expected = [theirs(meaning(row), reference) for row in read]
    try:
        found = ours(path, tokenizer)
    except dllm.Error as error:
        if "was built without" in str(error):
            raise Refused(str(error)) from error
        raise
    same(len(found), len(expected), f"{shape} in {form}: number of rows")
    for i, (one, other) in enumerate(zip(found, expected)):
        same(one[0], other[0], f"{shape} in {form}, template {template}, row {i}: ids of {rows[i]!r}")
        same(one[1], other[1], f"{shape} in {form}, template {template}, row {i}: keep of {rows[i]!r}")
