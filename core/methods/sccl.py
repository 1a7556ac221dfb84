"""SCCL: contrastive learning on two views of every text while clusters form (Zhang et al., NAACL 2021)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from core.augment import AUGMENTERS, Augmenter
from core.augment.backtranslation import CLOSENESS, BackTranslation
from core.augment.contextual import Contextual
from core.augment.views import STAGE as AUGMENT
from core.augment.views import make_views
from core.bench import Bench
from core.bench.forecast import Forecast, Stage
from core.clusters.clustering import Clustering, cluster_means, matched_numbers
from core.clusters.neighbours import reach
from core.clusters.partition import AUTO, UMAP
from core.errors import BadInput
from core.learning.loop import Course, all_vectors, represent, train
from core.methods.base import knob, partition_knob
from core.methods.deep import AS_PAPERS_DO, BALANCED, PAPER, QUICK, Beginning, Deep
from core.stages import ABOUT, CLUSTER, COMPARE, ENCODE, PREPARE, REPRESENT
from core.state import AFRESH, State
from core.work import Work

if TYPE_CHECKING:  # torch is loaded when it is needed
    from torch import Tensor

    from core.learning.learner import Learner
    from core.learning.networks import ScclHeads

SIMILAR, DROPOUT, COLUMNS = "similar", "dropout", "columns"
VIEWS = (SIMILAR, *AUGMENTERS, "neighbour+worddrop", "neighbour+charswap", "contextual+charswap", COLUMNS, DROPOUT)
NEAREST = 5
OBJECTIVES = ("joint", "contrastive", "clustering", "sequential")
CLUSTER_LOSSES = ("original", "crossed", "anchored")


@dataclass(frozen=True)
class Sccl(Deep):
    """Teaches the language model your texts: two wordings of one text move together, all others apart, clusters form.

    Choose it for short texts when a quarter of an hour of training is worth several points of accuracy.

    Relations: embed is where it starts; with objective=contrastive it is the paper's Instance-CL, with clustering its
    Clustering, with sequential its SCCL-Seq.
    """

    name = "sccl"
    title = "Contrastive clustering (SCCL)"
    stages = (ENCODE, COMPARE, AUGMENT, PREPARE, "train", REPRESENT, CLUSTER)
    about = ABOUT | {
        AUGMENT: "Every text gets other wordings, or similar texts to learn from.",
        "train": "The language model learns: texts that say the same draw together, others move apart, clusters form.",
    }
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        QUICK: {"steps": 40, "depth": "1", "every": 10},
        BALANCED: {},
        PAPER: {
            "augmenter": "contextual",
            "first_model": "roberta-base",
            "second_model": "bert-base-uncased",
            "steps": 1_000,
            "batch": 400,
            "rate": 5e-6,
            "head_rate": 5e-4,
            "depth": "all",
            "every": 100,
        }
        | AS_PAPERS_DO,
    }

    partition: str = partition_knob(AUTO)
    augmenter: str = knob(
        SIMILAR,
        "Where other wordings come from: similar texts of the table, changed words, other columns, or none (dropout).",
        choices=VIEWS,
    )
    strength: float = knob(0.2, "The share of words that change in a view.", low=0.01, high=0.9)
    steps: int = knob(
        150, "How many training steps at most; it stops earlier when nothing changes.", low=1, high=20_000
    )
    objective: str = knob(
        "joint", "Both losses together, one alone, or one after the other.", choices=OBJECTIVES, advanced=True
    )
    cluster_loss: str = knob(
        "original",
        "Clusters are sharpened on the texts, crosswise on both views (Eq 8), or from text to views (Eq 9).",
        choices=CLUSTER_LOSSES,
        advanced=True,
    )
    weight: float = knob(10.0, "Weight of the contrastive loss (eta).", low=0.0, high=1_000.0, advanced=True)
    temperature: float = knob(0.5, "Temperature of the contrastive loss (tau).", low=0.01, high=5.0, advanced=True)
    alpha: float = knob(1.0, "Degrees of freedom of the soft assignment.", low=0.1, high=100.0, advanced=True)
    first_view: str = knob("", "The column with the first other wording, for columns.", low=0, high=200, advanced=True)
    second_view: str = knob("", "The column with the second one, for columns.", low=0, high=200, advanced=True)
    first_model: str = knob(
        "",
        "For contextual the fill-mask model of the first view, for backtranslation the model that translates away.",
        low=0,
        high=200,
        advanced=True,
    )
    second_model: str = knob(
        "", "That of the second view, if another; or the model that translates back.", low=0, high=200, advanced=True
    )
    closeness: str = knob(
        CLOSENESS[0],
        "For backtranslation: which two of ten candidates, by their BLEU to the text.",
        choices=CLOSENESS,
        advanced=True,
    )

    @property
    def _views(self) -> int:
        """How many wordings of each text are made ready: its own, and two others where those are new texts."""
        return 1 if self.augmenter in (SIMILAR, DROPOUT) else 3

    def reads(self) -> tuple[str, ...]:
        """Name the columns beside the text that are read."""
        return (self.first_view, self.second_view) if self.augmenter == COLUMNS else ()

    def models(self) -> tuple[str, ...]:
        """Name the models that make other wordings."""
        if not {Contextual.name, BackTranslation.name} & set(self.augmenter.split("+")):
            return ()
        return tuple(sorted({self.first_model, self.second_model} - {""}))

    def trained_tokens(self, lengths: np.ndarray) -> tuple[float, float]:
        """Count the views: all pass the frozen layers once, those of the steps' texts learn."""
        texts, tokens = len(lengths), float(lengths.sum())
        taken = len(self._roles(self.objective)[0])
        return self._views * tokens, self.steps * self._size(texts) / max(texts, 1) * tokens * taken

    def check(self, bench: Bench) -> None:
        """Also refuse views that would teach nothing or that cannot be made."""
        super().check(bench)
        if self.augmenter == DROPOUT and self.depth == "0":
            raise BadInput("With depth 0 there is no dropout, so both views would be equal: choose another augmenter.")
        for augmenter in [one for maker in self._makers(bench) for one in maker]:
            if line := augmenter.missing():
                raise BadInput(f"The augmenter {augmenter.name} is not available here: {line}")

    def plan(self, forecast: Forecast) -> tuple[Stage, ...]:
        """Say that training takes most of the time."""
        depth = self.depth_of(forecast.shape)
        taken = len(self._roles(self.objective)[0])
        batch = self._size(forecast.texts)
        passes = self.steps * batch * taken / max(forecast.texts, 1)
        starts = 10 if self.partition == UMAP else 1
        deep = forecast.deep(depth, self._views, passes, batch)
        return *deep, forecast.cluster(self.clusters, forecast.shape.width, self.partition, starts)

    def fit(self, bench: Bench, state: State = AFRESH) -> Work[Clustering]:
        """Encode, augment, prepare, train, then partition what was learnt, starting from the learnt centres."""
        from core.encoder.trunk import Trunk
        from core.learning.networks import ScclHeads

        beginning = yield from self.begin(bench)
        views = yield from self._make_views(bench)
        trunk = Trunk(bench.load().trainable_model(), int(self.depth))
        source = yield from bench.prepare(trunk, [bench.texts, *views], PREPARE)
        heads = ScclHeads(
            beginning.centres,
            weight=self.weight,
            temperature=self.temperature,
            alpha=self.alpha,
            cluster_loss=self.cluster_loss,
            seed=bench.seed,
        )
        learner = self.learner(bench, trunk, heads, source)
        yield from self._train(learner, heads, beginning, bench, state)
        vectors = yield from represent(learner, len(bench.texts), state)
        clustering = yield from self.cluster(bench, vectors, state, heads.centres.array(), beginning.partition)
        return replace(clustering.with_beside("q", heads.soft(vectors)), before=beginning.before)

    def _make_views(self, bench: Bench) -> Work[list[list[str]]]:
        """Return two new wordings of all texts, or none where similar texts or dropout serve as such."""
        made = yield from make_views(bench, self._makers(bench), self.strength)
        return made or [list(view) for view in bench.views]

    def _makers(self, bench: Bench) -> list[list[Augmenter]]:
        """Return what makes the first and the second view: the same, but for the fill-mask models."""
        names = [name for name in self.augmenter.split("+") if name in AUGMENTERS]
        return [[self._maker(name, bench, member) for name in names] for member in (0, 1)] if names else []

    def _maker(self, name: str, bench: Bench, member: int) -> Augmenter:
        if name == Contextual.name:
            return Contextual(bench, (self.first_model, self.second_model or self.first_model)[member])
        if name == BackTranslation.name:
            return BackTranslation(bench, self.first_model, self.second_model, self.closeness, member)
        return AUGMENTERS[name](bench)

    def _train(
        self, learner: "Learner", heads: "ScclHeads", beginning: Beginning, bench: Bench, state: State
    ) -> Work[None]:
        from core.learning.learner import batch_rows

        rows, turn = len(bench.texts), self.steps // 2 if self.objective == "sequential" else 0
        guard, near = beginning.guard, beginning.near[:, : max(reach(len(bench.texts), self.clusters, NEAREST), 1)]

        def take(step: int) -> bool:
            objective = self.objective
            if objective == "sequential":
                objective = "contrastive" if step < turn else "clustering"
            taken, roles = self._roles(objective)
            chosen = batch_rows(rows, self._size(rows), bench.seed, step)
            places = [chosen + view * rows for view in taken]
            if self.augmenter == SIMILAR and len(places) > 1:
                random = np.random.default_rng([bench.seed, step])
                places[1] = near[chosen, random.integers(near.shape[1], size=len(chosen))]

            def loss(vectors: "Tensor") -> "dict[str, Tensor]":
                parts = vectors.chunk(len(taken))
                original, first, second = (parts[role] for role in roles)
                if objective == "contrastive":
                    return heads.contrastive(first, second)
                return getattr(heads, objective)(original, first, second)

            return learner.step(np.concatenate(places), loss)

        def ready(step: int) -> Work[None]:
            """Between the halves of SCCL-Seq, find clusters anew in what the first has learnt."""
            if turn and step == turn:
                vectors = yield from all_vectors(learner, rows)
                labels = yield from self.find_clusters(bench, vectors)
                labels = matched_numbers(guard.labels, labels[guard.sample], self.clusters)[labels]
                heads.centres.move_to(cluster_means(vectors, labels, self.clusters))

        course = Course("train", self.steps, self.every, turn)
        yield from train(learner, guard, course, take, lambda _: heads.centres.array(), state, ready)

    def _size(self, texts: int) -> int:
        """Return how many texts a step takes. Similar texts in one batch would be pushed apart as well as together."""
        return min(self.batch, max(texts // 8, 2)) if self.augmenter == SIMILAR else min(self.batch, texts)

    def _roles(self, objective: str) -> tuple[tuple[int, ...], tuple[int, int, int]]:
        """Say which wordings a step takes, and which of those play text, first view and second view."""
        if objective == "clustering" and self.cluster_loss == "original":
            return (0,), (0, 0, 0)
        if self._views == 1:
            return (0, 0), (0, 0, 1)
        if objective == "contrastive" or (objective == "clustering" and self.cluster_loss == "crossed"):
            return (1, 2), (0, 0, 1)
        return (0, 1, 2), (0, 1, 2)
