"""header_pages.py ROOT LUA_TOOL CC SCRATCH: the pages of HTML that scripts/tools/pages.lua makes from include/dllm are well
formed, every link leads to an element, every function and constant of the manifest has one; the headers' examples compile."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import xml.etree.ElementTree as tree


def main():
    root, lua_tool, compiler, scratch = sys.argv[1:]
    root, scratch = pathlib.Path(root), pathlib.Path(scratch)
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)

    def pages(*words):
        subprocess.run([lua_tool, str(root / "scripts/tools/pages.lua"), str(root), *map(str, words)], check=True,
                       env=dict(os.environ, DLLM_TOOLS=str(root / "scripts/tools")))

    pages(scratch / "pages")
    places, links = set(), []
    for file in sorted((scratch / "pages").glob("*.html")):
        places.add(file.name)
        for element in tree.parse(file).iter():
            if "id" in element.attrib:
                places.add(f"{file.name}#{element.attrib['id']}")
            if "href" in element.attrib:
                links.append((file.name, element.attrib["href"]))
    dead = [f"{name}: {link}" for name, link in links if link not in places]
    assert not dead, dead
    manifest = json.loads((root / "abi/manifest.json").read_text())
    described = {place.split("#")[1] for place in places if "#" in place}
    missing = [entry["name"] for entry in manifest["functions"] + manifest["constants"] if entry["name"] not in described]
    assert not missing, missing
    tables = [line for page in (scratch / "pages").glob("*.html") for element in tree.parse(page).iter("pre")
              for line in "".join(element.itertext()).split("\n")]
    header = (root / "include/dllm/engine.h").read_text()
    rows = [line[7:] for line in header.split("\n") if line.startswith((" *     threads  ", " *     bf16  ", " *     fsdp  "))]
    lost = [row for row in rows if row not in tables]
    assert len(rows) >= 3 and not lost, f"tables of engine.h are not kept: {lost} of {rows}"
    print(f"{len(links)} links between {len(places)} places")

    source = scratch / "examples.c"
    pages("--examples", source)
    count = source.read_text().count("#line 1")
    with_one = [file for file in (root / "include/dllm").glob("*.h") if "\n *     dllm_" in file.read_text()]
    assert count >= len(with_one) > 10, f"{count} examples, {len(with_one)} headers have one"
    subprocess.run([compiler, "-std=c99", "-Wall", "-Werror", "-Wno-unused", f"-I{root}/include", f"-I{root}/tests/docs",
                    "-fsyntax-only", str(source)], check=True)


if __name__ == "__main__":
    main()
