"""Names and struck words: appended, folded, undone; the artefacts stay as they are."""

import numpy as np
import pytest

from core.clusters.clustering import Clustering
from core.errors import BadInput
from core.maps.projector import Projector
from core.runs.curation import Curation, Ledger
from core.runs.labelling import Labelling, curated
from core.runs.store import Run, Store
from core.runs.worker import drive
from core.tables.corpus import Corpus
from core.topics.describe import Topic
from tests.conftest import make_config


@pytest.fixture
def finished(store: Store, corpus: Corpus, projector: Projector) -> Run:
    run = store.create(make_config(corpus), corpus)
    assert drive(run, projector, lambda: False) == "finished"
    return run


def test_names_and_struck_words_reach_the_table_and_can_be_undone(finished: Run) -> None:
    before = Labelling.of(finished)
    word = before.topics[0].words[0]
    ledger = finished.ledger()
    ledger.rename(0, "  late \n delivery ")
    ledger.strike(word)
    after = Labelling.of(finished)
    assert after.names[0] == "late delivery" and set(after.table()["cluster_name"]) >= {"late delivery"}
    assert all(word not in topic.words for topic in after.topics)
    ledger.undo()
    assert word in Labelling.of(finished).topics[0].words and Labelling.of(finished).names[0] == "late delivery"
    ledger.rename(0, "")
    assert Labelling.of(finished).names == before.names
    for _ in range(2):
        ledger.undo()
    assert Labelling.of(finished).names == before.names
    with pytest.raises(BadInput, match="nothing to undo"):
        ledger.undo()
    assert finished.results.topics() == before.topics, "the artefacts are never changed"


def test_a_name_belongs_to_the_labels_it_was_given_to(finished: Run) -> None:
    finished.ledger().rename(1, "mine")
    finished.ledger().strike("pizza")
    other = Ledger(finished.folder, "other labels").fold()
    assert not other.names and other.struck == {"pizza"}, "a name would stand on another cluster, a stop word stays one"


def test_half_a_line_left_by_a_kill_loses_nothing_else(finished: Run) -> None:
    ledger = finished.ledger()
    ledger.strike("one")
    with ledger.path.open("ab") as file:
        file.write(b'{"operation": "stri')
    ledger.strike("two")
    assert ledger.fold().struck == {"one", "two"}


def test_too_long_a_name_is_refused(finished: Run) -> None:
    with pytest.raises(BadInput, match="at most 120 characters"):
        finished.ledger().rename(0, "x" * 121)


def test_without_their_words_clusters_are_named_by_what_is_left() -> None:
    topics = [Topic("", 1, ("a", "b", "c", "d"), (4.0, 3.0, 2.0, 1.0), ()), Topic("", 1, ("a",), (1.0,), ())]
    found = curated(topics, Curation({}, frozenset("a")))
    assert [topic.name for topic in found] == ["b, c, d", "cluster 1"] and found[0].weights == (3.0, 2.0, 1.0)


def test_a_row_in_no_cluster_has_no_name(corpus: Corpus) -> None:
    count = len(corpus.used)
    labels = np.r_[-1, np.zeros(count - 1, np.int32)].astype(np.int32)
    clustering = Clustering(np.zeros((count, 2), np.float32), np.ones((count, 1), np.float32), labels)
    topic = Topic("the only one", count - 1, (), (), ())
    labelling = Labelling(corpus, clustering, [topic], np.zeros((count, 2)), Curation())
    assert labelling.row_names()[:2].tolist() == ["", "the only one"] and labelling.filled == 1
    assert labelling.table()["cluster"].tolist()[:2] == ["", "0"]
    assert labelling.view()["cluster_name"].tolist()[:2] == ["", "the only one"]
