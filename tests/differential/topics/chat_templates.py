"""Random chat templates and conversations against Jinja2, set up as transformers does."""
import json
import pathlib
import random

import dllm
import jinja2
import jinja2.ext
from compare import Difference, Refused
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

TEXTS = ["", " ", "hello", "Hello World", "  padded  ", "two\nlines\n", "a,b,,c", "don't \"quote\" \\n", "ünïcødé 中文 👩‍👩‍👧", "<b>&amp;</b>",
         "42", "-3.5", "x" * 30, "tab\there", "CamelCase", "<think>why</think>\n\nso", "{{ not }} {% code %}"]


def value(rng: random.Random, depth: int = 0):
    kinds = ["text"] * 4 + ["int", "float", "bool", "none"] + (["list", "dict"] if depth < 2 else [])
    kind = rng.choice(kinds)
    if kind == "text":
        return rng.choice(TEXTS)
    if kind == "int":
        return rng.choice([0, 1, -1, 7, 100, 12345678901])
    if kind == "float":
        return rng.choice([0.5, -2.25, 3.0, 1e-7, 1e20, 0.1])
    if kind == "list":
        return [value(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    if kind == "dict":
        return {key: value(rng, depth + 1) for key in rng.sample(["name", "b", "type", "x y", "ä", "items"], rng.randint(0, 3))}
    return {"bool": rng.random() < .5, "none": None}[kind]


class Writer:
    """Makes template text; every name in `scope` is defined where it is used."""

    def __init__(self, rng: random.Random):
        self.rng, self.scope = rng, ["messages", "extra", "flag", "number"]

    def text_expr(self, depth: int = 0) -> str:
        rng = self.rng
        kinds = ["literal", "role", "content", "filter", "slice", "join", "concat", "cond", "str", "method", "index", "default", "tojson"]
        kind = rng.choice(kinds[:3] if depth > 2 else kinds)
        inner = lambda: self.text_expr(depth + 1)
        if kind == "literal":
            return rng.choice(["'a'", '"b c"', "'\\n'", "' x '", "''", "'<|im_end|>'", "'äß'", "'it\\'s'"])
        if kind == "role":
            return "message.role" if "message" in self.scope else "messages[0]['role']"
        if kind == "content":
            return rng.choice(["message['content']", "message.content"]) if "message" in self.scope else "messages[-1]['content']"
        if kind == "filter":
            return f"({inner()})|{rng.choice(['trim', 'upper', 'lower', 'title', 'capitalize', 'length', 'string', 'first', 'last', 'reverse', 'indent', 'indent(2, true)', 'wordcount', 'list', 'unique|list', 'sort|join'])}"
        if kind == "slice":
            return f"({inner()}){rng.choice(['[1:]', '[:3]', '[-4:]', '[::-1]', '[1:-1]', '[::2]', '[5:1]'])}"
        if kind == "join":
            return f"({inner()})|list|join({rng.choice(['', chr(39)+','+chr(39)])})"
        if kind == "concat":
            return f"({inner()} {rng.choice(['+', '~'])} {inner()})"
        if kind == "cond":
            return f"({inner()} if {self.test(depth + 1)} else {inner()})"
        if kind == "str":
            return f"({self.number_expr(depth + 1)})|string"
        if kind == "method":
            call = rng.choice(["strip()", "upper()", "lower()", "split(',')", "split()", "replace('a', 'bb')", "startswith('<')", "endswith('n')", "lstrip('\\n')",
                               "rstrip()", "title()", "split('</think>')[-1]", "capitalize()", "find('l')", "count('l')", "strip('a ')", "splitlines()", "isdigit()",
                               "rfind('o')", "replace('l', '', 1)", "split('l', 1)", "join(['x', 'y'])"])
            return f"({inner()}).{call}"
        if kind == "index":
            return f"extra{rng.choice(['.a', '[' + chr(39) + 'b' + chr(39) + ']', '.missing', '.get(' + chr(39) + 'a' + chr(39) + ')', '.get(' + chr(39) + 'zz' + chr(39) + ', 1)'])}"
        if kind == "default":
            return f"extra.{rng.choice(['a', 'nothing'])}|default({inner()}{rng.choice(['', ', true'])})"
        return f"{rng.choice(['extra', 'messages', 'extra.a', 'flag', inner()])}|tojson{rng.choice(['', '(indent=2)', '(indent=4)'])}"

    def number_expr(self, depth: int = 0) -> str:
        rng = self.rng
        kind = rng.choice(["literal", "name", "length", "op", "int", "abs"] if depth < 3 else ["literal", "name"])
        if kind == "literal":
            return rng.choice(["0", "1", "2", "-3", "10", "2.5", "1e3"])
        if kind == "name":
            return rng.choice(["number", "loop.index0", "loop.index", "loop.revindex", "loop.length"]) if "loop" in self.scope else "number"
        if kind == "length":
            return "messages|length"
        if kind == "op":
            operator = rng.choice(["+", "-", "*", "/", "//", "%", "**"])
            right = rng.choice(["2", "3", "4", "-2"]) if operator in ("/", "//", "%") else rng.choice(["2", "3"]) if operator == "**" else self.number_expr(depth + 1)
            return f"({self.number_expr(depth + 1)} {operator} {right})"
        if kind == "int":
            return f"({self.text_expr(depth + 1)})|{rng.choice(['int', 'int(5)', 'float', 'length'])}"
        return f"({self.number_expr(depth + 1)})|{rng.choice(['abs', 'round', 'round(1)', 'int'])}"

    def test(self, depth: int = 0) -> str:
        rng = self.rng
        choices = [lambda: "flag", lambda: f"{self.number_expr(depth + 1)} {rng.choice(['==', '!=', '<', '>=', '>'])} {self.number_expr(depth + 1)}",
                   lambda: f"{self.text_expr(depth + 1)} {rng.choice(['==', '!=', 'in', 'not in'])} {self.text_expr(depth + 1)}",
                   lambda: f"extra.{rng.choice(['a', 'zz'])} is {rng.choice(['defined', 'none', 'not none', 'string', 'number', 'mapping', 'iterable', 'sequence', 'undefined', 'boolean', 'integer', 'float', 'true', 'false'])}",
                   lambda: f"({self.number_expr(depth + 1)})|int is {rng.choice(['odd', 'even', 'divisibleby 2'])}",
                   lambda: f"'{rng.choice(['content', 'name', 'tool_calls'])}' in {'message' if 'message' in self.scope else 'messages[0]'}",
                   lambda: "loop.first" if "loop" in self.scope else "messages", lambda: "loop.last" if "loop" in self.scope else "not extra"]
        if depth < 2:
            choices += [lambda: f"not ({self.test(depth + 1)})", lambda: f"({self.test(depth + 1)}) {rng.choice(['and', 'or'])} ({self.test(depth + 1)})"]
        return rng.choice(choices)()

    def statement(self, depth: int = 0) -> str:
        rng = self.rng
        left, right = rng.choice(["{%", "{%", "{%-", "{%+"]), rng.choice(["%}", "%}", "-%}"])
        body = lambda: "".join(self.statement(depth + 1) for _ in range(rng.randint(1, 3)))
        kind = rng.choice(["print", "print", "print", "raw", "comment"] + (["if", "for", "set", "for_list", "macro", "filter", "namespace"] if depth < 3 else []))
        if kind == "print":
            shown = rng.choice([self.text_expr, self.number_expr])()
            if rng.random() < .05:
                shown = f"({shown})|e"
            return f"{rng.choice(['{{', '{{', '{{-'])} {shown} {rng.choice(['}}', '}}', '-}}'])}"
        if kind == "raw":
            return rng.choice(["\n", " ", "text\n", "  \n", "<|im_start|>", "\n\n", "    ", "a b\n  ", "{% raw %}{{ x }}{% endraw %}"])
        if kind == "comment":
            return rng.choice(["{# note #}", "{#- note -#}", "{# a\nb #}\n"])
        if kind == "if":
            other = f"{left} else {right}{body()}" if rng.random() < .5 else ""
            return f"{left} if {self.test()} {right}{body()}{other}{left} endif {right}"
        if kind == "set":
            name = f"v{len(self.scope)}"
            return f"{left} set {name} = {self.text_expr()} {right}" + "{{ " + name + " }}"
        if kind == "namespace":
            return f"{left} set ns = namespace(n=0) {right}{{% for message in messages %}}{{% set ns.n = ns.n + {self.rng.choice(['1', 'loop.index'])} %}}{{% endfor %}}{{{{ ns.n }}}}"
        if kind == "macro":
            name = f"m{self.rng.randrange(1000)}"
            return f"{left} macro {name}(a, b='q') {right}[{{{{ a }}}}|{{{{ b }}}}]{left} endmacro {right}{{{{ {name}({self.text_expr()}{rng.choice(['', ', b=1'])}) }}}}"
        if kind == "filter":
            return f"{left} filter {rng.choice(['upper', 'trim', 'lower'])} {right}{body()}{left} endfilter {right}"
        if kind == "for_list":
            source = rng.choice(["range(3)", "[1, 'b', none]", "extra.items()" if rng.random() < .2 else "extra", "'abc'", "messages[::-1]", "range(2, 10, 3)", "extra|dictsort"])
            return f"{left} for item in {source} {right}{{{{ item }}}}{body()}{left} endfor {right}"
        before = list(self.scope)
        self.scope += ["message", "loop"]
        condition = f" if {rng.choice(['message.role == ' + chr(39) + 'user' + chr(39), 'message.content'])}" if rng.random() < .2 else ""
        control = f"{{% if {self.test()} %}}{{% {rng.choice(['break', 'continue'])} %}}{{% endif %}}" if rng.random() < .15 else ""
        inside = control + body()
        self.scope = before
        empty = f"{left} else {right}none" if rng.random() < .2 else ""
        return f"{left} for message in messages{condition} {right}{inside}{empty}{left} endfor {right}"


def environment():
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
    made.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def refuse(message):
        raise jinja2.exceptions.TemplateError(message)
    made.globals["raise_exception"] = refuse
    return made


def bytes_tokenizer(folder: pathlib.Path) -> dllm.Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    made.save(str(folder / "tokenizer.json"))
    return dllm.Tokenizer(folder)


def run_case(seed: int, folder: pathlib.Path) -> None:
    rng = random.Random(seed)
    tokenizer = bytes_tokenizer(folder)
    compared = refused = 0
    for _ in range(8):
        writer = Writer(rng)
        template = "".join(writer.statement() for _ in range(rng.randint(1, 5)))
        messages = [{"role": rng.choice(["user", "assistant", "system", "tool"]), "content": rng.choice(TEXTS),
                     **({"name": value(rng)} if rng.random() < .2 else {})} for _ in range(rng.randint(1, 4))]
        variables = {"extra": {"a": value(rng), "b": value(rng)}, "flag": rng.random() < .5, "number": rng.choice([0, 1, 3, -7, 2.5])}
        about = f"\n  template {template!r}\n  messages {json.dumps(messages)}\n  variables {json.dumps(variables)}"
        try:
            # Members that are null are dropped before a template sees them, as transformers 5.24 does.
            plain = [{key: value for key, value in message.items() if value is not None} for message in messages]
            want = environment().from_string(template).render(messages=plain, add_generation_prompt=False, **variables)
        except Exception as error:  # whatever Python raises
            want = error
        try:
            got = tokenizer.decode(tokenizer.chat(messages, template=template, variables=variables)[0])
        except dllm.Error as error:
            got = error
        if isinstance(want, Exception):
            # What Python refuses by its types (a list has no splitlines) may have a text here.
            if isinstance(want, jinja2.TemplateError) and not isinstance(got, Exception):
                raise Difference(f"accepted, Jinja2 has: {type(want).__name__}: {want}{about}")
            continue
        if " object at 0x" in want:  # an address
            continue
        if isinstance(got, dllm.Error) and type(got).__name__ == "Unimplemented":
            refused += 1
            continue
        if isinstance(got, Exception):
            raise Difference(f"refused: {got}\n  Jinja2 makes {want!r}{about}")
        if got != want:
            raise Difference(f"text{about}\n  ours   {got!r}\n  theirs {want!r}")
        compared += 1
    if refused and not compared:
        raise Refused("not implemented")
