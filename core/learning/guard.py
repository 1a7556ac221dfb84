"""The guard: looks at a training from time to time, without any label, and says when to stop and what to keep."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from core.clusters.evaluate import dunn, silhouette
from core.encoder.vectors import normalised, squared_distances
from core.events import Checkpoint

SAMPLE = 2_000  # a frame of so many points follows its snapshot within seconds
_ROUNDS = 3
_FLAT = 0.005  # a silhouette so low says nothing
_SICK = 0.5  # below this share of the first order, or of the clusters, training has gone wrong
_SETTLING = 25  # steps over which labels must keep still, however often one looks


@dataclass(frozen=True)
class Look:
    """What one look saw. ``before`` is the silhouette in the space before training, which collapse cannot flatter."""

    step: int
    clusters: int
    entropy: float
    changed: float
    silhouette: float
    before: float
    intra: float
    inter: float
    dunn: float | None = None  # of one cluster, or of points that are all equal, there is none

    def figures(self) -> dict[str, float]:
        """Return what curves are drawn of."""
        return {name: float(value) for name, value in asdict(self).items() if name != "step" and value is not None}


def stratified(labels: np.ndarray, size: int, seed: int) -> np.ndarray:
    """Return rows, in their order, of which every cluster has its share, and none that exists is left out."""
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    if len(labels) <= size:
        return np.sort(shuffled)
    by_cluster = shuffled[np.argsort(labels[shuffled], kind="stable")]
    spread = by_cluster[((np.arange(size) + 0.5) * (len(labels) / size)).astype(np.int64)]
    one_each = by_cluster[np.unique(labels[by_cluster], return_index=True)[1]]
    left_out = one_each[~np.isin(labels[one_each], labels[spread])]
    return np.sort(np.concatenate([spread, left_out]))


class Guard:
    """Watches a fixed sample, whose clusters are a few rounds of k-means from given centres, so that ids stay."""

    def __init__(
        self,
        sample: np.ndarray,
        clusters: int,
        tolerance: float = 0.005,
        patience: int = 4,
        before: np.ndarray | None = None,
        origin: Look | None = None,
    ) -> None:
        """Take the rows to look at; a later stage's guard is told how they lay ``before`` all training, and ordered."""
        self.sample, self.clusters = sample, clusters
        self.tolerance, self.patience = tolerance, patience
        self.looks: list[Look] = []
        self.before, self._origin = before, origin
        self.turn = 0  # a step at which the objective changes: after it, looks before it count for nothing
        self._labels: np.ndarray | None = None

    def follow(self) -> "Guard":
        """Return the guard of a later stage, for the same sample."""
        return Guard(self.sample, self.clusters, self.tolerance, self.patience, self.before, self.origin)

    def look(self, step: int, vectors: np.ndarray, centres: np.ndarray) -> Look:
        """Look at the sample's vectors; the first look of all is the space before training.

        A centre of which nothing is left is NaN, see ``inhabited``.
        """
        space = normalised(vectors)
        labels = _lloyd(space, normalised(centres))
        if self.before is None:
            self.before = space
        if self._labels is None:
            self._labels = labels
        sizes = np.bincount(labels, minlength=self.clusters)
        shares = sizes[sizes > 0] / len(labels)
        intra, inter = _distances(space, labels)
        seen = Look(
            step,
            int((sizes > 0).sum()),
            float(-(shares * np.log(shares)).sum() / np.log(max(self.clusters, 2))),
            float((labels != self._labels).mean()),
            silhouette(space, labels, 0)[0] or 0.0,
            silhouette(self.before, labels, 0)[0] or 0.0,
            intra,
            inter,
            dunn(space, labels),
        )
        self._labels = labels
        self.looks.append(seen)
        return seen

    @property
    def labels(self) -> np.ndarray:
        """The sample's clusters at the last look."""
        assert self._labels is not None
        return self._labels

    @property
    def origin(self) -> Look | None:
        """The first look of the first stage: losses of one stage after another add up."""
        return self._origin or (self.looks[0] if self.looks else None)

    def health(self, look: Look, first: Look | None = None) -> float:
        """Say how much of the stage's first order is left: 1 at the start, near 0 when clusters fall together.

        Neither part can be flattered by a space that shrinks to a few points: the silhouette is that of today's
        clusters in the space before training, the entropy that of their sizes.
        """
        first = first or self.looks[0]
        kept = look.before / first.before if first.before > _FLAT else 1.0
        even = look.entropy / first.entropy if first.entropy > 0 else 1.0  # one cluster from the start cannot fall
        return float(np.clip(kept, 0, 1) * min(1.0, even) ** 2)

    def score(self, look: Look) -> float:
        """Score a look without labels: how clear the clusters are now, times their health."""
        return look.silhouette * (self.health(look) if look.silhouette > 0 else 1.0)

    @property
    def best(self) -> Look:
        """The look whose clusters are kept: the last of those with the highest score that have not fallen together."""
        sound = [look for look in self.looks if not self._is_sick(look)]
        return max(self._counted(sound) or sound or self.looks[:1], key=lambda look: (self.score(look), look.step))

    @property
    def collapsed(self) -> bool:
        """Whether the clusters have fallen together at the last look."""
        return self._is_sick(self.looks[-1])

    def _is_sick(self, look: Look) -> bool:
        return any(
            self.health(look, first) < _SICK or look.clusters < _SICK * first.clusters
            for first in (self.looks[0], self.origin or self.looks[0])
        )

    def _counted(self, looks: list[Look]) -> list[Look]:
        """Return the looks since the turn, once there is one; until then all."""
        return [look for look in looks if look.step >= self.turn or self.looks[-1].step < self.turn]

    @property
    def verdict(self) -> str:
        """Say "collapsed", "settled", "stalled", or nothing if training should go on."""
        now, best = self.looks[-1], self.best
        if self.collapsed:
            return "collapsed"
        if now.step < self.turn:
            return ""
        lately = sum(look.changed for look in self.looks if look.step > now.step - _SETTLING)
        if len(self._counted(self.looks)) > 2 and lately <= self.tolerance:
            return "settled"
        return "stalled" if sum(look.step > best.step for look in self.looks) >= self.patience else ""

    def sentence(self, stage: str) -> tuple[str, str]:
        """Say in words which checkpoint of a stage is kept and why, and whether that is a warning."""
        best, now = self.best, self.looks[-1]
        kept = f"Step {best.step} of {stage} is kept: its clusters are the clearest that are still in order"
        kept += f" (silhouette {best.silhouette:.3f}, {self.health(best, self.origin):.0%} of the order at the start)."
        if self.verdict == "collapsed":
            left = f"{now.clusters} of {self.clusters}"
            if now.clusters == self.looks[0].clusters:
                left = f"{self.health(now, self.origin):.0%} of their order"
            return f"The clusters began to fall together ({left} left at step {now.step}). {kept}", "warning"
        why = {"settled": f"Only {now.changed:.1%} of the texts changed cluster. ", "stalled": "It got no better. "}
        return why.get(self.verdict, "") + kept, "info"

    # Where it stands ----------------------------------------------------------------------------------------------

    def values(self) -> dict[str, Any]:
        """Return the looks as plain values, to go on from."""
        return {"looks": [asdict(look) for look in self.looks]}

    def arrays(self) -> dict[str, np.ndarray]:
        """Return labels and the space before training, to go on from."""
        assert self.before is not None
        return {"guard.before": self.before, "guard.labels": self.labels}

    def restore(self, state: Checkpoint) -> None:
        """Go on where a checkpoint was made."""
        self.looks = [Look(**look) for look in state.values["looks"]]
        self.before, self._labels = state.arrays["guard.before"], state.arrays["guard.labels"]


def inhabited(centres: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return centres with NaN for those to which nobody belongs: none may fill them, or a collapse would be hidden."""
    return np.where(np.isin(np.arange(len(centres)), labels)[:, None], centres, np.nan)


def _lloyd(space: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Take a few rounds of k-means. scikit-learn's would fill an empty cluster anew and so hide a collapse."""
    centres = centres.astype(np.float64).copy()
    labels = np.nanargmin(squared_distances(space, centres), axis=1)
    for _ in range(_ROUNDS):
        for cluster in np.unique(labels):
            centres[cluster] = space[labels == cluster].mean(0)
        new = np.nanargmin(squared_distances(space, centres), axis=1)
        if (new == labels).all():
            break
        labels = new
    return labels


def _distances(space: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Return SCCL's two distances (Fig 4): to the own centre, and from a centre to the nearest other one."""
    centres = np.stack([space[labels == cluster].mean(0) for cluster in np.unique(labels)])
    own = [np.linalg.norm(space[labels == c] - centres[i], axis=1).mean() for i, c in enumerate(np.unique(labels))]
    if len(centres) < 2:
        return float(np.mean(own)), 0.0
    between = np.sqrt(squared_distances(centres, centres))
    np.fill_diagonal(between, np.inf)
    return float(np.mean(own)), float(between.min(1).mean())
