"""The house rules: arrows point one way, nothing unsafe, every module says what it is."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CORE = sorted((ROOT / "core").rglob("*.py"))
PAGES = sorted((ROOT / "pages").rglob("*.py"))
LAYERS = [
    ["core", "core.errors", "core.events", "core.files"],
    ["core.work", "core.state", "core.stages"],
    ["core.tables"],
    ["core.encoder"],
    ["core.maps"],
    ["core.clusters"],
    ["core.topics"],
    ["core.learning"],
    ["core.bench"],
    ["core.augment"],
    ["core.methods"],
    ["core.runs"],
    ["core.commands"],
    ["core.__main__"],
    ["pages"],
    ["app"],
]


UNSAFE = (
    r"\bpickle\.",
    r"import pickle",
    r"allow_pickle=True",
    r"trust_remote_code=True",
    r"unsafe_allow_html",
    r"torch\.load\(",
    r"\.cuda\(",
    r"st\.html",
    r"(?<!\.)\beval\(",
    r"(?<!\.)\bexec\(",
    r"shell=True",
)


def module_of(path: Path) -> str:
    """Return a file's dotted name."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def layer_of(module: str) -> int:
    """Return the layer of the longest prefix that has one."""
    ranked = [(len(name), height) for height, names in enumerate(LAYERS) for name in names
              if module == name or (module.startswith(name + ".") and name != "core")]  # fmt: skip
    assert ranked, f"{module} has no place in the architecture"
    return max(ranked)[1]


def imports_of(path: Path) -> set[str]:
    """Return every module a file imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


@pytest.mark.parametrize("path", [*CORE, *PAGES, ROOT / "app.py"], ids=module_of)
def test_imports_point_one_way(path: Path) -> None:
    height = layer_of(module_of(path))
    for module in imports_of(path):
        if module.split(".")[0] in ("core", "pages", "app"):
            assert layer_of(module) <= height, f"{module_of(path)} must not import {module}"


@pytest.mark.parametrize("path", CORE, ids=module_of)
def test_core_knows_nothing_of_the_browser(path: Path) -> None:
    assert not {name for name in imports_of(path) if name.split(".")[0] in ("streamlit", "plotly")}


@pytest.mark.parametrize(
    "path", [*CORE, *PAGES, *sorted((ROOT / "tests").rglob("*.py")), *(ROOT / "assets").glob("*.py")], ids=module_of
)
def test_every_module_says_what_it_is_and_is_short(path: Path) -> None:
    text = path.read_text("utf-8")
    assert ast.get_docstring(ast.parse(text)), "a module needs a docstring"
    assert len(text.splitlines()) <= 330, "split it by idea"


@pytest.mark.parametrize("path", [*CORE, *PAGES, ROOT / "app.py"], ids=module_of)
def test_nothing_unsafe(path: Path) -> None:
    text = path.read_text("utf-8")
    for pattern in UNSAFE:
        assert not re.search(pattern, text), f"{pattern} in {module_of(path)}"


@pytest.mark.parametrize(
    "imports", ["core.methods", "core.__main__", "core.runs.worker, pages.parts.services", "core.tables.corpus"]
)
def test_torch_is_loaded_only_by_those_who_need_it(imports: str) -> None:
    code = f"import sys, {imports}; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert not subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True).returncode


def test_the_pipeline_fits_on_a_screen() -> None:
    assert len((ROOT / "core" / "runs" / "pipeline.py").read_text().splitlines()) <= 100


def test_torch_is_pinned_exactly_where_everything_is_installed() -> None:
    lines = [line for line in (ROOT / "requirements.txt").read_text().splitlines() if line and not line.startswith("#")]
    assert any(line.startswith("torch==") for line in lines), "unpinned, it would bring gigabytes that nobody asked for"
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines), "every line is pinned"
    makefile = (ROOT / "Makefile").read_text()
    assert all("requirements.txt" in line for line in makefile.splitlines() if "pip install" in line)
