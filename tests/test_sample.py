"""The bundled sample: made by its script, and hard enough that words alone do not do."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from core.__main__ import main

ASSETS = Path(__file__).parents[1] / "assets"


def test_the_script_makes_the_file_byte_by_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("make_sample", ASSETS / "make_sample.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "make_sample", script)
    spec.loader.exec_module(script)
    script.write_csv(script.make_corpus(script.read_library(script.SOURCE)), tmp_path / "sample.csv")
    assert (tmp_path / "sample.csv").read_bytes() == (ASSETS / "sample.csv").read_bytes()


def test_meaning_beats_words_on_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = {}
    for method in ("tfidf", "embed"):
        options = ["run", str(ASSETS / "sample.csv"), "--text", "message", "--label", "theme", "--method", method]
        assert main([*options, "--runs", str(tmp_path)]) == 0
        found[method] = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["embed"]["rows"] == 3_000 and found["embed"]["used"] < 3_000
    assert found["embed"]["metrics"]["acc"] > found["tfidf"]["metrics"]["acc"] + 0.15
    assert found["embed"]["metrics"]["nmi"] > found["tfidf"]["metrics"]["nmi"] + 0.15
