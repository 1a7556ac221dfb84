"""Encoder + partition: the smallest method, and the start of every deep one."""

from dataclasses import dataclass

from core.bench import Bench
from core.bench.forecast import Forecast, Stage
from core.clusters.clustering import Clustering
from core.methods.base import Encoding
from core.stages import CLUSTER, ENCODE
from core.state import AFRESH, State
from core.work import Work


@dataclass(frozen=True)
class Embed(Encoding):
    """Turns every text into a vector of meaning with a pretrained language model, then groups near vectors.

    Choose it first: it needs no training and takes a minute for some thousands of texts.

    Relations: every deep method starts from these vectors and then changes the encoder; bow and tfidf see words
    where this sees meaning.
    """

    name = "embed"
    title = "Language model + k-means"
    stages = (ENCODE, CLUSTER)

    def plan(self, forecast: Forecast) -> tuple[Stage, ...]:
        """Say that encoding takes nearly all of the time."""
        return forecast.encode(), forecast.cluster(self.clusters, forecast.shape.width, self.partition)

    def fit(self, bench: Bench, state: State = AFRESH) -> Work[Clustering]:
        """Encode (or read the cached vectors), then partition."""
        vectors = yield from bench.encode(self.pooling)
        return (yield from self.cluster(bench, vectors, state))
