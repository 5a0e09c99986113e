"""run_readme.py MCS MONO DLLM_DLL README: the code of the README as programs, in an empty folder.

The first block decodes, the second trains; they run in the other order, since decoding loads what training saved."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HEAD = "using System;\nusing Dllm;\n\ninternal static class Program\n{\n    private static void Main()\n    {\n"


def main(mcs, mono, library, readme):
    blocks = re.findall(r"```csharp\n(.*?)```", pathlib.Path(readme).read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 2, f"{readme} has {len(blocks)} blocks"
    assert len(blocks[0].splitlines()) <= 10 and len(blocks[1].splitlines()) <= 15, "a block is too long"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shutil.copy(library, folder / "Dllm.dll")
        (folder / "corpus.txt").write_text("the cat sat by the sea\nthe old man looked at the moon\n" * 100)
        for number in (1, 0):
            (folder / "program.cs").write_text(HEAD + blocks[number] + "    }\n}\n", encoding="utf-8")
            subprocess.run([mcs, "-langversion:7", "-warnaserror", "-r:Dllm.dll", "program.cs"], cwd=folder, check=True)
            run = subprocess.run([mono, "program.exe"], cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
            print(run.stdout, end="")
            assert run.stdout, "nothing was printed"
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
