"""What import says when the library cannot be used."""
import os
import subprocess
import sys
import tempfile
import unittest


def import_with(library):
    environment = dict(os.environ, DLLM_LIBRARY=library)
    return subprocess.run([sys.executable, "-c", "import dllm; print(dllm.version())"],
                          env=environment, capture_output=True, text=True, timeout=60)


class Loading(unittest.TestCase):
    def test_the_named_library_loads(self):
        done = import_with(os.environ["DLLM_LIBRARY"])
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_missing_library_is_named(self):
        done = import_with("/nowhere/libdllm.so")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/nowhere/libdllm.so", done.stderr)
        self.assertIn("DLLM_LIBRARY", done.stderr)

    def test_a_file_that_is_no_library(self):
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(b"not a library")
            file.flush()
            self.assertIn(file.name, import_with(file.name).stderr)

    def test_another_library(self):
        import ctypes.util
        libc = ctypes.util.find_library("c")
        if libc is None:
            self.skipTest("no C library found to load instead")
        self.assertIn("is not a libdllm", import_with(libc).stderr)


if __name__ == "__main__":
    unittest.main()
