"""The labelling: a run's result as a person sees it, with their corrections. Pages, export and CLI read this."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from core.clusters.clustering import Clustering
from core.runs.curation import Curation
from core.runs.store import Run
from core.tables import free_name
from core.tables.corpus import Corpus
from core.topics.describe import Topic, unique_topic_names


@dataclass(frozen=True)
class Labelling:
    """Who belongs where, under which name, how surely. Positions are those of the used rows unless said otherwise."""

    corpus: Corpus
    clustering: Clustering
    topics: list[Topic]
    points: np.ndarray
    curation: Curation

    @classmethod
    def of(cls, run: Run) -> "Labelling":
        """Fold a finished run's result with its corrections."""
        curation, results = run.ledger().fold(), run.results
        topics = curated(results.topics(), curation)
        return cls(run.corpus(), results.clustering(), topics, results.map("umap")[1], curation)

    @property
    def labels(self) -> np.ndarray:
        """The cluster of every used row; -1 means none."""
        return self.clustering.labels

    @cached_property
    def names(self) -> list[str]:
        """The name of every cluster, by its number."""
        return [topic.name for topic in self.topics]

    @property
    def filled(self) -> int:
        """How many clusters hold a text."""
        return sum(topic.size > 0 for topic in self.topics)

    def row_names(self) -> np.ndarray:
        """Return the cluster name of every used row; a row in no cluster has none."""
        return np.array([*self.names, ""], dtype=object)[self.labels]

    def rows_of(self, cluster: int) -> np.ndarray:
        """Return the rows of the table that are in a cluster."""
        return self.corpus.used[self.labels == cluster]

    def table(self) -> pd.DataFrame:
        """Return every original row and column with the clusters beside them."""
        return self.corpus.labelled(self.labels, self.names, self.clustering.probability, self.points)

    def view(self) -> pd.DataFrame:
        """Return the table with cluster name and probability in front, only for looking at."""
        view = self.corpus.table.copy(deep=False)
        name, probability = np.full(len(view), "", dtype=object), np.full(len(view), np.nan)
        name[self.corpus.used] = self.row_names()
        probability[self.corpus.used] = np.where(self.labels >= 0, self.clustering.probability, np.nan)
        view.insert(0, free_name("cluster_name", view.columns), name)
        view.insert(1, free_name("probability", view.columns), probability.round(3))
        return view


def curated(topics: list[Topic], curation: Curation) -> list[Topic]:
    """Return topics without struck words, named anew by what is left, or as a person named them."""
    found = []
    for topic in topics:
        left = [at for at, word in enumerate(topic.words) if word not in curation.struck]
        words, weights = tuple(topic.words[at] for at in left), tuple(topic.weights[at] for at in left)
        found.append(replace(topic, words=words, weights=weights))
    renamed = curation.struck and unique_topic_names([list(topic.words) for topic in found])
    return [
        replace(topic, name=curation.names.get(label) or (renamed[label] if renamed else topic.name))
        for label, topic in enumerate(found)
    ]
