"""The retrieval check by hand-made lists, and the encoder that a run trained."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from core.__main__ import main
from core.encoder.vectors import normalised
from core.errors import BadInput
from core.maps.projector import Projector
from core.runs.retrieval import Lists
from core.runs.store import Store
from core.runs.trained import trained_encoder
from core.runs.worker import drive
from core.tables.corpus import Corpus
from tests.conftest import make_config

ROWS = [
    ("how do I boil an egg", "cooking eggs in hot water", 1),
    ("how do I boil an egg", "the rocket reached orbit", 0),
    ("how do I boil an egg", "stadium tickets for the match", 0),
    ("when does the rocket start", "launch time of the spacecraft", 1),
    ("when does the rocket start", "a recipe for tomato soup", 0),
    ("a query that nothing answers", "something", 0),
]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Lay out the lists as a file."""
    path = tmp_path / "pairs.csv"
    pd.DataFrame(ROWS, columns=["query", "candidate", "relevant"]).to_csv(path, index=False)
    return path


def test_the_command_ranks_what_is_obvious(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["retrieve", str(table)]) == 0
    assert json.loads(capsys.readouterr().out) == {"map": 1.0, "mrr": 1.0, "queries": 2}


def test_bad_lists_are_refused_in_a_sentence(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["retrieve", str(table), "--query", "question"]) == 2
    assert main(["retrieve", str(table), "--run", "x", "--encoder", "y"]) == 2
    assert main(["retrieve", str(table), "--run", "../x", "--runs", str(tmp_path / "runs")]) == 2
    none = tmp_path / "none.csv"
    none.write_text("query,candidate,relevant\na b,c d,0\n")
    assert main(["retrieve", str(none)]) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 4 and "There is no column “question”" in said[0] and "nothing to measure" in said[3]
    floats = pd.DataFrame([("a", "b", "1.0"), ("a", "c", "0.0")], columns=["q", "c", "r"])
    assert Lists.read(floats, "q", "c", "r").relevant.tolist() == [True, False]
    with pytest.raises(BadInput, match="must hold 1 or 0"):
        Lists.read(pd.DataFrame([("a", "b", "maybe")], columns=["q", "c", "r"]), "q", "c", "r")
    for row in (("a", "b", ""), (" ", "b", "1"), ("a", None, "1")):
        with pytest.raises(BadInput, match="Row 2 has nothing in the column"):
            Lists.read(pd.DataFrame([("a", "b", "1"), row], columns=["q", "c", "r"]), "q", "c", "r")


@pytest.mark.parametrize(
    ("method", "knobs"),
    [
        ("clusterbert", {"batch": 9, "every": 3, "depth": "1", "rate": 1e-3, "partition": "kmeans"}),
        ("embed", {}),
    ],
)
def test_the_trained_encoder_sees_texts_as_the_run_did(
    method: str, knobs: dict[str, object], corpus: Corpus, store: Store, projector: Projector, table: Path
) -> None:
    run = store.create(make_config(corpus, method, **knobs), corpus)
    with pytest.raises(BadInput, match="is not finished"):
        trained_encoder(run)
    assert drive(run, projector, lambda: False) == "finished", run.story().traceback
    encoder = trained_encoder(run)
    vectors = np.empty((len(corpus.texts), 384), np.float32)
    for rows, batch in encoder.vectors(encoder.tokens(corpus.texts)[0], "mean"):
        vectors[rows] = batch
    np.testing.assert_allclose(normalised(vectors), run.results.clustering().vectors, atol=2e-3)
    assert main(["retrieve", str(table), "--run", run.id, "--runs", str(store.folder)]) == 0


def test_a_run_without_a_language_model_has_none_to_give(corpus: Corpus, store: Store, projector: Projector) -> None:
    run = store.create(make_config(corpus, "bow"), corpus)
    with pytest.raises(BadInput, match="used no language model"):
        trained_encoder(run)
