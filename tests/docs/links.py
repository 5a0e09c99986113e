"""Every link of a page to a file of the tree, and to a heading of one, leads somewhere.   links.py ROOT"""
import pathlib
import re
import sys


def anchors(page):
    """The names of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    counts = {}
    for heading in re.findall(r"^#+ (.+?)\s*$", text, flags=re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        counts[name] = counts.get(name, 0) + 1
        yield name if counts[name] == 1 else f"{name}-{counts[name] - 1}"


def broken(root):
    for page in [root / "README.md", *sorted((root / "docs").rglob("*.md")),
                 *sorted((root / "bindings").rglob("*.md"))]:
        for file, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)[^)]*\)", page.read_text()):
            target = page.parent / file if file else page
            if re.match(r"[a-z]+:", file):
                continue
            if not target.exists():
                yield f"{page.relative_to(root)}: there is no {file}"
            elif anchor and target.suffix == ".md" and anchor not in anchors(target):
                yield f"{page.relative_to(root)}: {file or 'the page'} has no heading #{anchor}"


if __name__ == "__main__":
    problems = list(broken(pathlib.Path(sys.argv[1])))
    print("\n".join(problems) or "every link leads somewhere")
    sys.exit(1 if problems else 0)
