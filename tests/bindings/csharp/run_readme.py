"""run_readme.py MCS MONO DLLM_DLL README: the code of the README as programs, in an empty folder.

The blocks generate, show ten examples, pull, decode and train. The last one runs first, since others load what it saves."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from hub_cache import write_cache

HEAD = "using System;\nusing Dllm;\n\ninternal static class Program\n{\n    private static void Main()\n    {\n"


def main(mcs, mono, library, readme):
    blocks = re.findall(r"```csharp\n(.*?)```", pathlib.Path(readme).read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 6, f"{readme} has {len(blocks)} blocks"
    for block, most in zip(blocks, (5, 23, 8, 3, 10, 15)):
        assert len(block.splitlines()) <= most, f"a block is too long:\n{block}"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shutil.copy(library, folder / "Dllm.dll")
        (folder / "corpus.txt").write_text("the cat sat by the sea\nthe old man looked at the moon\n" * 100)
        shutil.copy(pathlib.Path(readme).parents[2] / "scripts/recipes/stories.gguf", folder)
        for number in (5, 0, 1, 2, 3, 4):
            (folder / "program.cs").write_text(HEAD + blocks[number] + "    }\n}\n", encoding="utf-8")
            subprocess.run([mcs, "-langversion:7", "-warnaserror", "-r:Dllm.dll", "program.cs"], cwd=folder, check=True)
            cache = write_cache(folder / "cache", folder / "runs/first") if number == 3 else {}
            run = subprocess.run([mono, "program.exe"], cwd=folder, check=True, stdout=subprocess.PIPE, text=True,
                                 env={**os.environ, **cache})
            print(run.stdout, end="")
            assert run.stdout, "nothing was printed"
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
