"""The README tells the truth: its tree, its code and its commands."""

import re
import subprocess
from pathlib import Path

from core.__main__ import _parser

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")


def tree() -> list[str]:
    """Return the paths that the annotated tree names."""
    block = README.split("## Where everything is")[1].split("```")[1]
    paths, parents = [], [""]
    for line in block.strip("\n").splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        name = line.split()[0]
        parents[depth + 1 :] = [parents[depth] + name]
        paths.append(parents[depth] + name)
    return paths


def test_the_tree_is_true() -> None:
    named = set(tree())
    missing = {path for path in named if not (ROOT / path).exists()}
    assert not missing, "the tree names what is not there"
    files = {str(path.relative_to(ROOT)) for folder in ("core", "pages") for path in (ROOT / folder).rglob("*.py")}
    unnamed = {path for path in files if not path.endswith("__init__.py")} - named
    assert not unnamed, "the tree leaves out what is there"


def test_every_line_of_the_tree_says_what_it_is() -> None:
    block = README.split("## Where everything is")[1].split("```")[1]
    assert all(len(line.split()) > 2 for line in block.strip("\n").splitlines() if line.strip() != "pages/")


def test_the_smallest_method_is_printed_whole() -> None:
    assert (ROOT / "core" / "methods" / "embed.py").read_text("utf-8").strip() in README


def test_its_commands_are_understood() -> None:
    for line in re.findall(r"^python -m core (.+?)(?:\s+#.*)?$", README, re.MULTILINE):
        assert _parser().parse_args(line.split())


def test_its_pictures_are_there() -> None:
    for path in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README):
        assert (ROOT / path).stat().st_size > 10_000


def test_nothing_large_is_tracked() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True).stdout
    assert all(
        (ROOT / name).stat().st_size < 2_000_000 for name in listed.split("\0") if name and (ROOT / name).exists()
    )


def test_no_source_file_is_ignored() -> None:
    command = ["git", "ls-files", "--others", "--ignored", "--exclude-standard", "core", "pages", "tests", "assets"]
    ignored = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.splitlines()
    assert not [name for name in ignored if "__pycache__" not in name], "a file that git would not carry along"
