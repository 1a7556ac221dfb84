"""The README tells the truth: its tree, its code and its commands."""

import re
import subprocess
from pathlib import Path

import pytest

from core.__main__ import _parser

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
TREES = {
    "README": README.split("## Where everything is")[1].split("```")[1],
    "architecture": (ROOT / "docs" / "architecture.md").read_text("utf-8").split("```")[1],
}


def tree(block: str) -> list[str]:
    """Return the paths that an annotated tree names."""
    paths, parents = [], [""]
    for line in block.strip("\n").splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        name = line.split()[0]
        parents[depth + 1 :] = [parents[depth] + name]
        paths.append(parents[depth] + name)
    return paths


@pytest.mark.parametrize("block", TREES.values(), ids=TREES)
def test_the_trees_name_only_what_is_there_and_say_what_it_is(block: str) -> None:
    assert not {path for path in tree(block) if not (ROOT / path).exists()}
    assert all(len(line.split()) > 2 for line in block.strip("\n").splitlines())


def test_the_readme_names_every_folder() -> None:
    folders = {f"core/{path.name}/" for path in (ROOT / "core").iterdir() if (path / "__init__.py").exists()}
    assert folders <= set(tree(TREES["README"]))


def test_the_long_tree_names_every_file() -> None:
    files = {str(path.relative_to(ROOT)) for folder in ("core", "pages") for path in (ROOT / folder).rglob("*.py")}
    assert {path for path in files if not path.endswith("__init__.py")} <= set(tree(TREES["architecture"]))


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
