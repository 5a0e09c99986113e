"""The notebook of bindings/python/examples: its code cells in order, each as a notebook runs it (the value of a last
expression is what the cell shows). Where nbformat is installed, the file is checked against its schema too."""
import ast
import json
import pathlib
import tempfile
import unittest
from unittest import mock
import xml.etree.ElementTree as xml

NOTEBOOK = pathlib.Path(__file__).resolve().parents[3] / "bindings/python/examples/train_and_decode.ipynb"


def run(source, name, names):
    """What the cell shows."""
    tree = ast.parse(source, name)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), names)
    return eval(compile(ast.Expression(last.value), name, "eval"), names) if last else None


class Notebook(unittest.TestCase):
    def setUp(self):
        self.cells = json.loads(NOTEBOOK.read_text())["cells"]

    def test_it_is_saved_without_results(self):
        ids = [cell["id"] for cell in self.cells]
        self.assertEqual(len(ids), len(set(ids)))
        for cell in self.cells:
            if cell["cell_type"] == "code":
                self.assertEqual((cell["outputs"], cell["execution_count"]), ([], None), cell["id"])

    def test_it_is_a_notebook(self):
        try:
            import nbformat
        except ImportError:
            self.skipTest("nbformat is not installed")
        nbformat.validate(nbformat.read(str(NOTEBOOK), as_version=4))

    def test_the_cells_run_in_order(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        home = mock.patch("tempfile.tempdir", scratch.name)  # where the notebook puts its corpus
        home.start()
        self.addCleanup(home.stop)
        names, shown = {"__name__": "__main__"}, {}
        for cell in self.cells:
            if cell["cell_type"] == "code":
                shown[cell["id"]] = run("".join(cell["source"]), cell["id"], names)
        self.assertEqual(len(shown["train"]), 10)
        self.assertLess(shown["train"][-1], shown["train"][0])
        drawn = xml.fromstring(shown["plot"]._repr_svg_()).find("{http://www.w3.org/2000/svg}polyline")
        self.assertEqual(len(drawn.get("points").split()), 10)
        self.assertTrue(shown["decode"])
        again = run("".join(next(cell["source"] for cell in self.cells if cell["id"] == "decode")), "decode", names)
        self.assertEqual(again, shown["decode"])


if __name__ == "__main__":
    unittest.main()
