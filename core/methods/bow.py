"""Bag of words + partition: the baseline that knows nothing but which words occur."""

from dataclasses import dataclass

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer

from core.bench import Bench
from core.bench.forecast import PROGRAM, Forecast, Stage
from core.clusters.clustering import Clustering
from core.errors import BadInput
from core.events import Progress, StageStarted
from core.methods.base import Method, knob
from core.stages import ABOUT, CLUSTER
from core.state import AFRESH, State
from core.work import Work


@dataclass(frozen=True)
class Bow(Method):
    """Counts the most frequent words of each text and groups texts with similar counts.

    Choose it to see how far bare words go: it takes seconds and needs no language model.

    Relations: tfidf is this with rare words weighted up; embed replaces counts by meaning.
    """

    name = "bow"
    title = "Word counts + k-means"
    stages = ("count words", CLUSTER)
    about = ABOUT | {"count words": "The words of every text are counted."}

    features: int = knob(
        1_500, "How many of the most frequent words are counted (the papers use 1,500 or 2,000).", low=10, high=20_000
    )

    def check(self, bench: Bench) -> None:
        """Also refuse texts without a single word to count."""
        super().check(bench)
        words_of = self.vectoriser().build_analyzer()
        if not any(words_of(text) for text in bench.texts):
            raise BadInput("The texts hold no words of two or more letters, so there is nothing to count.")

    def plan(self, forecast: Forecast) -> tuple[Stage, ...]:
        """Say that counting is quick and k-means over many columns is not."""
        counting = Stage("count words", 1 + forecast.tokens / 500_000, PROGRAM + 8 * forecast.texts * self.features)
        return counting, forecast.cluster(self.clusters, self.features, self.partition)

    def vectoriser(self) -> CountVectorizer:
        """Return what turns texts into rows of numbers."""
        return CountVectorizer(max_features=self.features, dtype=np.float32)

    def fit(self, bench: Bench, state: State = AFRESH) -> Work[Clustering]:
        """Count, then partition."""
        yield StageStarted("count words")
        counts = self.vectoriser().fit_transform(bench.texts)
        yield Progress("count words", 1, 1)
        return (yield from self.cluster(bench, counts.toarray(), state))
