"""Runs that version 0.1 wrote still open everywhere, export the same labels, and go on where they stood."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from core.maps.projector import Projector
from core.runs.labelling import Labelling
from core.runs.store import Store
from core.runs.worker import drive
from tests.pages.tabs import open_page, words_on

ROOT = Path(__file__).parents[3]
ASSETS = ROOT / "tests" / "assets"


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Return a copy of the store that version 0.1 left; its runs name their encoder from the repository's root."""
    monkeypatch.chdir(ROOT)
    shutil.copytree(ASSETS / "runs", tmp_path / "runs")
    return Store(tmp_path / "runs")


def test_they_are_listed_as_they_ended(old: Store) -> None:
    assert {(run.config.method, run.status()) for run in old.runs()} == {
        ("embed", "finished"),
        ("sccl", "finished"),
        ("clusterbert", "finished"),
        ("clusterbert", "interrupted"),
    }
    assert not old.unreadable()


@pytest.mark.parametrize("method", ["embed", "sccl", "clusterbert"])
def test_they_export_the_same_table(old: Store, method: str) -> None:
    run = next(run for run in old.runs() if run.config.method == method and run.status() == "finished")
    expected = pd.read_csv(ASSETS / f"{method}.csv", dtype=str, keep_default_na=False)
    pd.testing.assert_frame_equal(Labelling.of(run).table().astype(object), expected.astype(object))


@pytest.mark.parametrize("page", ["train", "explore", "export"])
def test_they_open_on_every_page(old: Store, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from pages.parts import services

    monkeypatch.setenv("TOPICSCOPE_RUNS", str(old.folder))
    services.worker.clear()
    for run in old.runs():
        assert run.config.method in words_on(open_page(page, run.id))
    services.worker().close()
    services.worker.clear()


def test_an_interrupted_one_goes_on_where_it_stood(old: Store, projector: Projector) -> None:
    run = next(run for run in old.runs() if run.status() == "interrupted")
    best = run.state().find("adapt")
    assert best is not None and run.state().find("form") is not None
    steps = [record["done"] for record in run.log.read()[0] if record["event"] == "Progress"]
    assert drive(run, projector, lambda: False) == "finished", run.story().traceback
    assert len(Labelling.of(run).table()) == 38 and steps
    formed = [record for record in run.log.read()[0] if record["event"] == "StageStarted" and record["stage"] == "form"]
    assert len(formed) == 2, "it went on in the stage in which it was cut off"


def test_another_look_of_an_old_training_can_be_chosen(old: Store, projector: Projector) -> None:
    run = next(run for run in old.runs() if run.config.method == "sccl")
    first = run.looks()[0]
    assert len(run.looks()) > 2
    run.choose(*first)
    assert drive(run, projector, lambda: False) == "finished", run.story().traceback
    assert run.state().choice.step == first[1] and np.isfinite(run.results.clustering().vectors).all()
