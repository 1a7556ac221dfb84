"""What all methods share in which a language model learns: how deep, how fast, how often looked at, where it starts."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from core.bench import Bench
from core.clusters.clustering import cluster_means
from core.clusters.neighbours import NEAR, joined_views, near_rows
from core.clusters.partition import LINKAGE, SMOOTH
from core.clusters.start import STARTS, find_start
from core.encoder.shape import TOKENS_HELD, Shape
from core.encoder.tokens import Tokens
from core.events import Note, Resolved, StageStarted
from core.learning.depth import DEPTHS, settle_depth
from core.learning.guard import SAMPLE, Guard, stratified
from core.methods.base import AUTO, Encoding, Method, knob
from core.stages import COMPARE, PREPARE
from core.work import Work

if TYPE_CHECKING:  # torch is loaded when it is needed
    from torch import nn

    from core.encoder.trunk import Trunk
    from core.learning.learner import Learner, Source


QUICK, BALANCED, PAPER = "quick look", "balanced", "paper settings"
AS_PAPERS_DO: dict[str, Any] = {"start": "kmeans", "partition": "kmeans"}


@dataclass(frozen=True)
class Beginning:
    """What is known before training: similar texts of each, where clusters start, who watches a sample of them."""

    before: np.ndarray  # the vectors as the encoder came
    near: np.ndarray
    centres: np.ndarray
    guard: Guard
    partition: str  # as it was asked for or, if that was left open, as it was decided


@dataclass(frozen=True)
class Deep(Encoding):
    """The knobs and the beginning of a deep method. Subclasses say how many tokens a run trains on."""

    depth: str = knob(
        AUTO, "How many top layers of the language model learn; fewer is faster.", choices=DEPTHS, advanced=True
    )
    start: str = knob(
        "similar",
        "Where clusters start: in meaning and words, smoothed over similar texts, or in meaning alone (the paper).",
        choices=STARTS,
        advanced=True,
    )
    batch: int = knob(256, "How many texts are seen in one step.", low=2, high=4_096, advanced=True)
    rate: float = knob(2e-5, "Learning rate of the language model.", low=0.0, high=0.1, advanced=True)
    head_rate: float = knob(2e-3, "Learning rate of heads and centres.", low=0.0, high=1.0, advanced=True)
    every: int = knob(25, "Steps between two looks at the clusters.", low=1, high=10_000, advanced=True)

    def trained_tokens(self, lengths: np.ndarray) -> tuple[float, float]:
        """Say how many tokens pass the frozen layers only, and how many the learning ones, in a whole run."""
        raise AssertionError(f"{self.name} does not say how much it trains")

    def settled(self, lengths: np.ndarray, shape: Shape, device: str) -> tuple[Method, dict[str, str]]:
        """Fix the depth."""
        depth, reason = settle_depth(self.depth, shape, device, *self.trained_tokens(lengths))
        pooled, reasons = super().settled(lengths, shape, device)
        return replace(pooled, depth=str(depth)), reasons | {"depth": reason}  # type: ignore[call-arg]

    def depth_of(self, shape: Shape) -> int:
        """Return the depth as a number; before it is settled, the whole encoder's."""
        return shape.layers if self.depth in (AUTO, "all") else int(self.depth)

    def begin(self, bench: Bench) -> Work[Beginning]:
        """Encode and compare all texts, and find where clusters start."""
        before = yield from bench.encode(self.pooling)
        yield StageStarted(COMPARE, len(bench.texts))
        lexical = (yield from bench.words()).lexical(bench.seed)
        near = yield from near_rows(joined_views(before, lexical), NEAR, bench.seed, stage=COMPARE)
        start = yield from find_start(before, lexical, self.clusters, bench.seed, self.start, near)
        how = self.partition
        if how == AUTO:
            how = LINKAGE if start.apart else SMOOTH
            yield Resolved("partition", how)
        guard = Guard(stratified(start.labels, SAMPLE, bench.seed), self.clusters)
        return Beginning(before, near, cluster_means(before, start.labels, self.clusters), guard, how)

    def find_clusters(self, bench: Bench, vectors: np.ndarray) -> Work[np.ndarray]:
        """Return the clusters that vectors have now, found as at the start."""
        lexical = (yield from bench.words()).lexical(bench.seed)
        return (yield from find_start(vectors, lexical, self.clusters, bench.seed, self.start)).labels

    def ready(self, bench: Bench, trunk: "Trunk", hides: bool = True) -> Work["Source"]:
        """Make the texts ready as they are; of a method that hides parts anew in every epoch, say what that costs."""
        source = yield from bench.prepare(trunk, [bench.texts], PREPARE)
        if trunk.start and hides:
            yield Note("The noise changes in every epoch, so the frozen layers are computed again in every step.")
        return source

    def learner(self, bench: Bench, trunk: "Trunk", heads: "nn.Module", source: "Source") -> "Learner":
        """Return what takes the steps."""
        from core.learning.learner import Learner

        return Learner(
            trunk,
            heads,
            source,
            pooling=self.pooling,
            rate=self.rate,
            head_rate=self.head_rate,
            seed=bench.seed,
            device=bench.device,
            precision=bench.precision,
            piece_tokens=TOKENS_HELD // max(trunk.depth, 1),
        )


@dataclass(frozen=True)
class TokenPredicting(Deep):
    """What deep methods share that predict tokens: over which of them the softmax runs."""

    softmax: str = knob(
        AUTO,
        "Which tokens the softmax runs over: those of the corpus, which is faster on a CPU, or the whole vocabulary.",
        choices=(AUTO, "corpus", "full"),
        advanced=True,
    )

    def settled(self, lengths: np.ndarray, shape: Shape, device: str) -> tuple[Method, dict[str, str]]:
        """Also fix the softmax: the vocabulary costs a CPU more than the layers do, and a GPU next to nothing."""
        method, reasons = super().settled(lengths, shape, device)
        if self.softmax != AUTO:
            return method, reasons
        if device != "cpu":
            return replace(method, softmax="full"), reasons  # type: ignore[call-arg]
        told = {"softmax": "The softmax runs over the corpus's tokens: over all it would take a CPU much longer."}
        return replace(method, softmax="corpus"), reasons | told  # type: ignore[call-arg]

    def predicted_tokens(self, tokens: Tokens) -> np.ndarray | None:
        """Return the tokens over which the softmax runs, or None for all."""
        return np.unique(tokens.ids) if self.softmax == "corpus" else None
