"""The programs of the README, as they are typed, in an empty folder with a small corpus."""
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from hub_cache import write_cache
from readme import every_program, write_corpus


class Readme(unittest.TestCase):
    def test_the_programs_run(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            write_corpus(pathlib.Path(folder))
            for name, text in every_program("python", "dllm for Python").items():
                if name == "hub":
                    os.environ.update(write_cache(pathlib.Path(folder) / "cache", pathlib.Path(folder) / "runs/mine"))
                exec(compile(text, name, "exec"), {})
            os.chdir("/")


if __name__ == "__main__":
    unittest.main()
