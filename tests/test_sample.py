"""The bundled sample: made by its script, and hard enough that words alone do not do."""

import importlib.util
import sys
from pathlib import Path

import pytest

from core.clusters.evaluate import external_metrics
from core.maps.projector import Projector
from core.runs.pipeline import prepare
from core.tables import read_table
from core.tables.corpus import Corpus
from tests.conftest import drained, make_config

ASSETS = Path(__file__).parents[1] / "assets"


def test_the_script_makes_the_file_byte_by_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("make_sample", ASSETS / "make_sample.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "make_sample", script)
    spec.loader.exec_module(script)
    script.write_csv(script.make_corpus(script.read_library(script.SOURCE)), tmp_path / "sample.csv")
    assert (tmp_path / "sample.csv").read_bytes() == (ASSETS / "sample.csv").read_bytes()


def test_meaning_beats_words_on_it(tmp_path: Path, projector: Projector) -> None:
    frame = read_table((ASSETS / "sample.csv").read_bytes(), "sample.csv").frame
    corpus = Corpus(frame, "message", "theme")
    assert len(frame) == 3_000 and len(corpus.used) < 3_000
    corpus = Corpus(frame.iloc[::2].reset_index(drop=True), "message", "theme")
    found = {}
    for method in ("tfidf", "embed"):
        bench, built = prepare(make_config(corpus, method, clusters=12), corpus, tmp_path, projector)
        found[method] = external_metrics(corpus.truth(), drained(built.fit(bench))[0].labels)
    assert found["embed"]["acc"] > found["tfidf"]["acc"] + 0.15
    assert found["embed"]["nmi"] > found["tfidf"]["nmi"] + 0.15
