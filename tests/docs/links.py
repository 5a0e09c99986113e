"""Every link of a page to a file of the tree leads somewhere.   links.py ROOT"""
import pathlib
import re
import sys


def broken(root):
    for page in [root / "README.md", *sorted((root / "docs").rglob("*.md")),
                 *sorted((root / "bindings").rglob("*.md"))]:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
            if not re.match(r"[a-z]+:", target) and not (page.parent / target).exists():
                yield f"{page.relative_to(root)}: there is no {target}"


if __name__ == "__main__":
    problems = list(broken(pathlib.Path(sys.argv[1])))
    print("\n".join(problems) or "every link leads somewhere")
    sys.exit(1 if problems else 0)
