"""What tests share: a small corpus with obvious groups, a store, one projecting process for all."""

import os
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
import torch

from core.encoder.source import EMBEDDED
from core.events import Event
from core.maps.projector import Projector
from core.methods import find_method
from core.runs.config import RunConfig, resolve
from core.runs.store import Run, Store
from core.tables.corpus import Corpus
from core.work import T, Work

torch.set_num_threads(1)
os.environ.setdefault("HF_HUB_OFFLINE", "1")

GROUPS = {
    "food": "pizza pasta cheese bread soup salad dinner kitchen recipe oven".split(),
    "space": "rocket planet orbit moon astronaut star telescope galaxy comet satellite".split(),
    "sport": "football goal team match player coach stadium league referee tournament".split(),
}


def obvious_table(each: int = 12) -> pd.DataFrame:
    """Texts of three plain groups whose words never mix, with their group beside them."""
    rows = [
        {
            "text": f"The {words[i % 10]} and the {words[(i + 3) % 10]} with a {words[(i + 1 + i // 10) % 10]}",
            "group": name,
        }
        for i in range(each)
        for name, words in GROUPS.items()
    ]
    return pd.DataFrame(rows, dtype="str")


def drained(work: Work[T]) -> tuple[T, list[Event]]:
    """Run a generator to its end; return its result and what it told."""
    told = []
    while True:
        try:
            event = next(work)
            told += [event] if event is not None else []
        except StopIteration as end:
            return end.value, told


TINY = str(Path(__file__).parent / "assets" / "encoder")  # a BERT of two layers that knows the words above


def make_config(
    corpus: Corpus, method: str = "tfidf", seed: int = 0, encoder: str = EMBEDDED, **knobs: object
) -> RunConfig:
    """Resolve a configuration as the command line would."""
    built = find_method(method).from_knobs({"clusters": 3, **knobs})
    return resolve(corpus, built, file="table.csv", file_sha256="0" * 64, reading={}, seed=seed, encoder=encoder)


@pytest.fixture
def corpus() -> Corpus:
    """Return the obvious corpus."""
    return Corpus(obvious_table(), "text", "group")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return an empty store."""
    return Store(tmp_path / "runs")


@pytest.fixture
def run(store: Store, corpus: Corpus) -> Run:
    """Return a run that was made and not started."""
    return store.create(make_config(corpus), corpus)


@pytest.fixture(scope="session")
def projector() -> Iterator[Projector]:
    """Return one projecting process for all tests; starting it takes seconds."""
    projector = Projector()
    projector.start()
    yield projector
    projector.close()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of benchmark and messy data, or skip with one visible line."""
    folder = os.environ.get("TOPICSCOPE_DATA")
    if not folder:
        pytest.skip("TOPICSCOPE_DATA is not set: the messy files are not tried")
    return Path(folder)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the slow browser walks go first, so that the two processes that share the work end together."""
    items.sort(key=lambda item: "browser" not in item.path.parts)
