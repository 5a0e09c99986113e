"""Names of the hub, without a network: what the cache has is loaded, and nothing else."""
import os
import tempfile
import unittest
from unittest import mock

import dllm


class Hub(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        variables = mock.patch.dict(os.environ, {"HF_HUB_CACHE": self.folder.name, "HF_HUB_OFFLINE": "1"})
        variables.start()
        self.addCleanup(variables.stop)

    def make_snapshot(self):
        commit = "c" * 40
        files = os.path.join(self.folder.name, "models--org--name", "snapshots", commit)
        os.makedirs(files)
        for name in ("config.json", "tokenizer.json", "model.safetensors"):
            with open(os.path.join(files, name), "w") as file:
                file.write("{}")
        refs = os.path.join(self.folder.name, "models--org--name", "refs")
        os.makedirs(refs)
        with open(os.path.join(refs, "main"), "w") as file:
            file.write(commit)
        return files

    def test_a_name_in_the_cache_is_its_folder(self):
        files = self.make_snapshot()
        self.assertEqual(dllm.pull("org/name"), files)
        self.assertEqual(dllm.pull("org/name", revision="main", file="config.json")[-12:], "/config.json")

    def test_a_name_that_is_not_there(self):
        with self.assertRaises(dllm.Error) as caught:
            dllm.pull("org/none")
        self.assertIn("model org/none is not in the cache", str(caught.exception))
        with self.assertRaises(dllm.Error) as caught:
            dllm.Tokenizer("org/none")
        self.assertIn("there is no file or folder org/none", str(caught.exception))

    def test_other_texts(self):
        for text in ("", "name", "a/b/c", "../a", "é/b"):
            with self.assertRaises(dllm.Error):
                dllm.pull(text)


if __name__ == "__main__":
    unittest.main()
