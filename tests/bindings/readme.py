"""The programs of a binding's README."""
import pathlib
import re
import textwrap

BINDINGS = pathlib.Path(__file__).resolve().parents[2] / "bindings"


def programs(language, title):
    """The indented blocks of a section, one text each."""
    readme = (BINDINGS / language / "README.md").read_text(encoding="utf-8")
    section = re.search(rf"^##? {re.escape(title)}\n((?:(?!## ).*\n)+)", readme, re.MULTILINE).group(1)
    blocks = re.findall(r"^((?:    .*\n|\n(?=    ))+)", section, re.MULTILINE)
    return [textwrap.dedent(block).strip() + "\n" for block in blocks]


def every_program(language, title):
    """{name: text} in the order in which they run, for a folder with corpus.txt. title is the README's own."""
    (decode,), (train,) = programs(language, "Ten lines that decode"), programs(language, "Fifteen lines that train")
    (hub,), examples = programs(language, "Models by name"), programs(language, "Ten examples")
    assert decode.count("\n") <= 10 and train.count("\n") <= 15 and len(examples) == 10
    made = {"train": train, "first": programs(language, title)[0], "decode": decode, "examples": "".join(examples), "hub": hub}
    return {name: text.replace("runs/quickstart", "runs/mine") for name, text in made.items()}


def write_corpus(folder):
    with open(folder / "corpus.txt", "w", encoding="utf-8") as corpus:
        corpus.writelines(f"The wise man sat by the sea and looked at moon {i % 7}\n" for i in range(200))
