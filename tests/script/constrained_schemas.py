"""Random JSON schemas under every policy: every request ends, and PyPI's jsonschema finds every text valid.

constrained_schemas.py LIBRARY SCRATCH [--python PYTHON] [--schemas N] [--seeds N] [--first N] [--policies A,B]

A schema is tried with --seeds seeds under each policy, after a prompt and as holes between given keys. The model is small and random,
so nearly every token that it likes is refused. Needs jsonschema in the running Python or in PYTHON
(python3 -m venv build/jsonschema_venv && build/jsonschema_venv/bin/pip install jsonschema numpy); else it is skipped.
"""
import argparse
import collections
import importlib.util
import json
import os
import pathlib
import random
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
parser = argparse.ArgumentParser()
parser.add_argument("library")
parser.add_argument("scratch", type=pathlib.Path)
parser.add_argument("--python", default="")
parser.add_argument("--schemas", type=int, default=10)
parser.add_argument("--seeds", type=int, default=3)
parser.add_argument("--first", type=int, default=0)
parser.add_argument("--policies", default="")
given = parser.parse_args()

if importlib.util.find_spec("jsonschema") is None:
    if os.path.exists(given.python) and not sys.prefix.endswith("jsonschema_venv"):
        os.execv(given.python, [given.python, "-B", *sys.argv])
    print("skipped: jsonschema is not installed")
    sys.exit(77)

import jsonschema  # noqa: E402

os.environ["DLLM_LIBRARY"] = given.library
sys.path.insert(0, str(ROOT / "bindings" / "python"))
import dllm  # noqa: E402

PIECES = [chr(c) for c in range(32, 127)] + ["ä", "€", '{"', '":', '": ', ', "', '"}', "}]", "],", "\\u", "true", "alse", "null", "00", "12",
                                             "20", "-1", "ab", "re", "ed", " r", '": "', '":"']
NAMES = ["a", "name", "x y", "b.c", "ä", "q"]
VALUES = ["red", "a+b", None, True, 12, -3, 1.5, 'q"', [1, 2], {"k": 1}]


def tokenizer(folder: pathlib.Path) -> dllm.Tokenizer:
    vocabulary = {piece: i for i, piece in enumerate(PIECES)}
    added = [{"id": len(PIECES) + i, "content": name, "special": True} for i, name in enumerate(["<end>", "<mask>"])]
    vocabulary.update({token["content"]: token["id"] for token in added})
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"type": "BPE", "vocab": vocabulary, "merges": []}, "added_tokens": added,
                                                       "decoder": {"type": "Fuse"}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<end>", "mask_token": "<mask>"}))
    return dllm.Tokenizer(folder)


def model() -> dllm.Model:
    return dllm.Model.new({"model_type": "a2d-llama", "vocab_size": len(PIECES) + 9, "hidden_size": 24, "num_hidden_layers": 2,
                           "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 40, "max_position_embeddings": 160,
                           "tie_word_embeddings": False, "initializer_range": 0.4, "mask_token_id": len(PIECES) + 1}, seed=1)


class Schemas:
    """Random schemas of what the library supports."""

    def __init__(self, seed: int):
        self.rng = random.Random(seed)

    def any(self, depth: int) -> dict:
        kinds = [self.string, self.integer, self.constant, self.choice, self.number, self.nullable,
                 lambda: {"type": self.rng.choice(["boolean", "null", "number"])}]
        if depth > 0:
            kinds += [lambda: self.object(depth), lambda: self.array(depth), lambda: self.prefixed(depth), lambda: self.either(depth),
                      lambda: self.free(depth), lambda: self.together(depth), lambda: self.tagged(depth)] * 2
        return self.rng.choice(kinds)()

    def string(self) -> dict:
        made: dict = {"type": "string"}
        if self.rng.random() < .5:
            made["minLength"] = self.rng.randint(0, 3)
        if self.rng.random() < .8:
            made["maxLength"] = made.get("minLength", 0) + self.rng.randint(0, 4)
        return made

    def integer(self) -> dict:
        made: dict = {"type": "integer"}
        low = self.rng.randint(-300, 300)
        if self.rng.random() < .6:
            made[self.rng.choice(["minimum", "exclusiveMinimum"])] = low
        if self.rng.random() < .6:
            made[self.rng.choice(["maximum", "exclusiveMaximum"])] = low + self.rng.randint(2, 500) + self.rng.choice([0, .0, .5])
        if self.rng.random() < .3:
            made["multipleOf"] = self.rng.choice([2, 3, 5.0, 7, 10, 25, 100, .5])
        return made

    def number(self) -> dict:
        made: dict = {"type": "number"}
        low = self.rng.choice([self.rng.randint(-30, 30), round(self.rng.uniform(-3, 3), self.rng.randint(1, 6))])
        if self.rng.random() < .7:
            made[self.rng.choice(["minimum", "exclusiveMinimum"])] = low
        if self.rng.random() < .7:
            made[self.rng.choice(["maximum", "exclusiveMaximum"])] = round(low + self.rng.choice([.5, 1, 2.25, 40]), 6)
        if self.rng.random() < .2:
            made["multipleOf"] = self.rng.choice([.5, .25, .125])
        return made

    def nullable(self) -> dict:
        made = self.rng.choice([self.integer(), self.number(), self.string()])
        return made | {"type": ["null", made["type"]]}

    def prefixed(self, depth: int) -> dict:
        made: dict = {"type": "array", "prefixItems": [self.any(depth - 1) for _ in range(self.rng.randint(1, 3))]}
        made["items"] = self.rng.choice([False, self.integer()])
        if self.rng.random() < .5:
            made["minItems"] = self.rng.randint(0, len(made["prefixItems"]))
        if self.rng.random() < .3:
            made["maxItems"] = made.get("minItems", 0) + self.rng.randint(0, 3)
        return made

    def constant(self) -> dict:
        return {"const": self.rng.choice(VALUES)}

    def choice(self) -> dict:
        return {"enum": self.rng.sample(VALUES, self.rng.randint(1, 4))}

    def object(self, depth: int) -> dict:
        names = self.rng.sample(NAMES, self.rng.randint(1, 3))
        made = {"type": "object", "properties": {name: self.any(depth - 1) for name in names},
                "required": [name for name in names if self.rng.random() < .6], "additionalProperties": False}
        if self.rng.random() < .3:
            made["minProperties"] = self.rng.randint(0, len(names))
        if self.rng.random() < .3:
            made["maxProperties"] = max(made.get("minProperties", 0), self.rng.randint(len(made["required"]), len(names)))
        return made

    def array(self, depth: int) -> dict:
        made: dict = {"type": "array", "items": self.any(depth - 1)}
        if self.rng.random() < .5:
            made["minItems"] = self.rng.randint(0, 2)
        if self.rng.random() < .5:
            made["maxItems"] = made.get("minItems", 0) + self.rng.randint(0, 2)
        return made

    def free(self, depth: int) -> dict:
        """An object whose members have no names in the schema, or only some of them."""
        made: dict = {"type": "object"}
        if self.rng.random() < .5:
            made["properties"] = {name: self.any(0) for name in self.rng.sample(NAMES, self.rng.randint(1, 2))}
        kind = self.rng.randint(0, 3)
        if kind == 0:
            made["patternProperties"] = {self.rng.choice(["^[a-n]", "b", "^.$"]): self.any(0)}
        if kind != 1 or "properties" in made:
            made["additionalProperties"] = self.rng.choice([self.any(0), self.any(depth - 1), True, False])
        if self.rng.random() < .3:
            made["propertyNames"] = self.rng.choice([{"maxLength": 3}, {"pattern": "^[a-z ]*$"}, {"enum": NAMES[:4]}])
        if self.rng.random() < .3:
            made["minProperties"] = self.rng.randint(0, 1)
        if self.rng.random() < .3:
            made["maxProperties"] = self.rng.randint(1, 3)
        return made

    def together(self, depth: int) -> dict:
        """Several schemas of one value."""
        kind = self.rng.randint(0, 3)
        if kind == 0:
            parts = [self.object(depth), self.object(depth)]
            for part in parts:
                for key in ("additionalProperties", "minProperties", "maxProperties"):
                    part.pop(key, None)
            return {"allOf": parts, "description": "both"}
        if kind == 1:
            return {"type": "object", "properties": {"a": self.any(0), "q": self.any(0)}, "unevaluatedProperties": False,
                    "anyOf": [{"required": ["a"]}, {"properties": {"b.c": self.any(0)}, "required": ["b.c"]}]}
        if kind == 2:
            return {"type": ["integer", "string", "null"], "enum": self.rng.sample(VALUES, 4) + [None], "maxLength": 2}
        low = self.rng.randint(-99, 99)
        return {"type": "integer", "allOf": [{"minimum": low - 5}, {"minimum": low, "maximum": low + 9}]}

    def tagged(self, depth: int) -> dict:
        made = [{"type": "object", "properties": {"kind": {"const": tag}, self.rng.choice(NAMES): self.any(depth - 1)}, "required": ["kind"]}
                for tag in ("x", "y")]
        return {"oneOf": made + [{"type": "null"}], "discriminator": {"propertyName": "kind"}}

    def either(self, depth: int) -> dict:
        if self.rng.random() < .5:
            return {"anyOf": [self.any(depth - 1), self.any(depth - 1)]}
        return {"oneOf": [self.string(), self.integer(), {"type": "null"}][:self.rng.randint(2, 3)]}

    def with_holes(self) -> tuple[dict, str]:
        """An object, and a text of it whose values are holes."""
        names = self.rng.sample(NAMES, self.rng.randint(1, 3))
        schema = {"type": "object", "properties": {name: self.any(1) for name in names}, "required": names}
        holes = [f"{json.dumps(name, ensure_ascii=False)}:{self.rng.choice(['', ' '])}<mask:{self.rng.randint(1, 9)}>" for name in names]
        return schema, "{" + ", ".join(holes) + "}"


def settings_of(policy: str, rng: random.Random) -> dict:
    """Settings of a request that the policy has. Policy spd leaves positions open after fewer steps than its block has positions."""
    keys = {row["name"] for row in dllm.schema(f"request:{policy}")["keys"]}
    usual = {"block_length": rng.choice([2, 4, 8, 64]), "steps": 64 if policy == "spd" else rng.choice([2, 5, 12, 64]),
             "threshold": rng.choice([.05, .3, .9]), "editing_threshold": rng.choice([.02, .2, 1.0]), "confidence_stop": rng.choice([.9, 2.0]),
             "revise": rng.choice(["none", "stored", "rescore"]), "eta": rng.choice([.02, .5]), "max_post_steps": 8}
    return {key: value for key, value in usual.items() if key in keys} | {"policy": policy, "temperature": rng.choice([0, .7, 4.0])}


def policies() -> list[str]:
    row = next(row for row in dllm.schema("request")["keys"] if row["name"] == "policy")
    return [name for name in row["choices"] if name != "auto"]


counts: collections.Counter = collections.Counter()
failures: list[str] = []


def check(generator, policy: str, schema: dict, write, settings: dict, seed: int) -> None:
    try:
        text = write(json_schema=schema, seed=seed, **settings)
    except dllm.Error as error:
        said = str(error)
        if "does not decode under" in said:
            counts[f"{policy} refuses constraints"] += 1
        elif "no text of" in said or "needs more than" in said:
            counts["no text of this length"] += 1
        elif " is in the range" in said:
            counts["no number in the range"] += 1
        elif "minProperties is above" in said or "in two schemas of one" in said or "no value is of this schema" in said or "no value of enum" in said:
            counts["no common schema"] += 1
        elif "states" in said or "second of work" in said:
            counts["too many states"] += 1
        else:
            failures.append(f"{policy} seed {seed}: {said}\n  {json.dumps(schema)}\n  {settings}")
        return
    try:
        jsonschema.validate(json.loads(text), schema, cls=jsonschema.Draft202012Validator)
        counts["valid"] += 1
    except (ValueError, jsonschema.ValidationError) as error:
        failures.append(f"{policy} seed {seed}: {text!r} is not valid: {str(error).splitlines()[0]}\n  {json.dumps(schema)}\n  {settings}")


def main() -> int:
    generator = dllm.Generator(model(), tokenizer(given.scratch))
    names = given.policies.split(",") if given.policies else policies()
    began = time.monotonic()
    for number in range(given.first, given.first + given.schemas):
        schemas = Schemas(number)
        schema = schemas.any(2)
        holes, text = schemas.with_holes()
        length = schemas.rng.randint(16, 40)
        for policy in names:
            rng = random.Random(f"{number} {policy}")
            for seed in range(given.seeds):
                settings = settings_of(policy, rng)
                check(generator, policy, schema, lambda **more: generator.generate("json ", length=length, **more).text, settings, seed)
                check(generator, policy, holes, lambda **more: generator.infill(text, **more).text, settings, seed)
    for failure in failures[:20]:
        print("FAIL", failure)
    for what, count in sorted(counts.items()):
        print(f"{count} {what}")
    print(f"{len(failures)} failed, {len(names)} policies, {given.schemas} schemas, {time.monotonic() - began:.0f} s")
    return 1 if failures or counts["valid"] < given.schemas else 0


if __name__ == "__main__":
    sys.exit(main())
