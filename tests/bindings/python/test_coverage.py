"""Every symbol of the manifest is used by the idiomatic layer, or unbound.txt says why not."""
import json
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BINDING = ROOT / "bindings" / "python"


class Coverage(unittest.TestCase):
    def test_manifest_is_covered(self):
        manifest = json.loads((ROOT / "abi" / "manifest.json").read_text())
        symbols = {function["name"] for function in manifest["functions"]}
        used = set()
        for path in (BINDING / "dllm").glob("*.py"):
            if path.name != "_raw.py":
                used |= set(re.findall(r"\bdllmx?_[a-z0-9_]+\b", path.read_text()))
        lines = [line.split(None, 1) for line in (BINDING / "unbound.txt").read_text().splitlines()
                 if line and not line.startswith("#")]
        unbound = {line[0] for line in lines}
        self.assertTrue(all(len(line) == 2 for line in lines), "a reason is missing in unbound.txt")
        self.assertEqual(symbols - used - unbound, set(), "neither used nor in unbound.txt")
        self.assertEqual(unbound & used, set(), "used, yet in unbound.txt")
        self.assertEqual((unbound | used) - symbols - {"dllm_error"}, set(), "not in the manifest")


if __name__ == "__main__":
    unittest.main()
