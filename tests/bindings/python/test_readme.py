"""The two programs of the README, as they are typed, in an empty folder with a small corpus."""
import os
import pathlib
import re
import tempfile
import textwrap
import unittest

README = pathlib.Path(__file__).resolve().parents[3] / "bindings/python/README.md"


def program(title):
    block = re.search(rf"^## {title}\n\n((?:    .*\n|\n)+)", README.read_text(), re.MULTILINE).group(1)
    return textwrap.dedent(block)


class Readme(unittest.TestCase):
    def test_the_programs_run(self):
        decode, train = program("Ten lines that decode"), program("Fifteen lines that train")
        self.assertLessEqual(len(decode.strip().splitlines()), 10)
        self.assertLessEqual(len(train.strip().splitlines()), 15)
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            with open("corpus.txt", "w") as corpus:
                corpus.writelines(f"The wise man sat by the sea and looked at moon {i % 7}\n" for i in range(200))
            exec(compile(train, "train", "exec"), {})
            exec(compile(decode.replace("runs/quickstart", "runs/mine"), "decode", "exec"), {})
            os.chdir("/")


if __name__ == "__main__":
    unittest.main()
