"""UFT, unsupervised fine-tuning: fill masks and pull texts to their clusters at the same time."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from core.bench import Bench
from core.bench.forecast import Forecast, Stage
from core.clusters.clustering import Clustering, soft_assignment
from core.clusters.partition import tell_unfilled
from core.encoder.source import has_mask_token
from core.encoder.tokens import Tokens
from core.errors import BadInput
from core.events import Note, Progress, StageStarted
from core.learning.guard import Guard, inhabited
from core.learning.loop import Course, Targets, all_vectors, represent, train
from core.methods.base import knob, partition_knob
from core.methods.deep import BALANCED, PAPER, QUICK, TokenPredicting
from core.methods.tsdae import following
from core.stages import ABOUT, CLUSTER, COMPARE, ENCODE, PREPARE, REPRESENT
from core.state import AFRESH, State
from core.work import Work

if TYPE_CHECKING:  # torch is loaded when it is needed
    from torch import Tensor

    from core.encoder.packing import Pack
    from core.learning.learner import Learner
    from core.learning.networks import UftHeads
    from core.learning.noise import Vocabulary

CENTRES = "centres"
WARM, TRAIN = "warm up", "train"


@dataclass(frozen=True)
class Uft(TokenPredicting):
    """Teaches the language model your texts by filling masked words, while every text moves towards its cluster.

    Choose it when clusters are roughly right from the start and should become clearer.

    Relations: with mlm=false it is deep embedded clustering of an encoder; tsdae and clusterbert delete words where
    this masks them; sccl keeps texts apart where this keeps their words.
    """

    name = "uft"
    title = "Masked words (UFT)"
    stages = (ENCODE, COMPARE, PREPARE, WARM, TRAIN, REPRESENT, CLUSTER)
    about = ABOUT | {
        WARM: "A new head learns to predict masked words before the language model itself changes.",
        TRAIN: "The language model predicts masked words and moves every text towards its cluster.",
    }
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        QUICK: {"epochs": 1, "depth": "1"},
        BALANCED: {},
        PAPER: {
            "epochs": 10,
            "batch": 16,
            "every": 250,
            "head_rate": 3e-5,
            "depth": "all",
            "pooling": "mean",
            "softmax": "full",
            "start": "kmeans",
        },
    }

    partition: str = partition_knob(CENTRES, CENTRES)
    epochs: int = knob(
        4, "How often all texts are seen at most; it stops earlier when nothing changes.", low=1, high=50
    )
    mlm: bool = knob(True, "Predict masked words beside clustering; off is the paper's ablation.")
    masked: float = knob(0.1, "The share of tokens that are masked.", low=0.01, high=0.9, advanced=True)
    mlm_weight: float = knob(1.0, "Weight of the masked-language-model loss.", low=0.0, high=1_000.0, advanced=True)
    cluster_weight: float = knob(1.0, "Weight of the cluster loss.", low=0.0, high=1_000.0, advanced=True)
    warm_up: int = knob(
        100,
        "Steps in which a new token-prediction head is trained alone, where the encoder comes without one.",
        low=0,
        high=10_000,
        advanced=True,
    )
    alpha: float = knob(1.0, "Degrees of freedom of the soft assignment.", low=0.1, high=100.0, advanced=True)
    batch: int = knob(64, "How many texts are seen in one step.", low=2, high=4_096, advanced=True)
    rate: float = knob(3e-5, "Learning rate of the language model.", low=0.0, high=0.1, advanced=True)
    every: int = knob(100, "Steps between two looks at the clusters.", low=1, high=10_000, advanced=True)

    def trained_tokens(self, lengths: np.ndarray) -> tuple[float, float]:
        """Masks are fresh in every epoch, so the frozen layers run along each time; without masks they need not."""
        tokens = float(lengths.sum())
        return tokens * (1 + self.epochs * self.mlm), tokens * self.epochs

    def check(self, bench: Bench) -> None:
        """Also refuse an encoder without a mask."""
        super().check(bench)
        if self.mlm and not has_mask_token(bench.encoder):
            raise BadInput(
                f"The encoder “{bench.encoder}” has no mask token, so there is nothing to predict: set mlm=false."
            )

    def plan(self, forecast: Forecast) -> tuple[Stage, ...]:
        """Say that training takes most of the time."""
        depth, batch = self.depth_of(forecast.shape), min(self.batch, forecast.texts)
        stages = {stage.name: stage for stage in forecast.deep(depth, 1, self.epochs, batch)}
        along = forecast.forward(forecast.shape.layers - depth, self.epochs * self.mlm)
        training = Stage(TRAIN, stages[TRAIN].seconds + along, stages[TRAIN].memory)
        shown = self.warm_up * batch / max(forecast.texts, 1) if self.mlm else 0.0
        warming = Stage(WARM, 1 + forecast.forward(forecast.shape.layers, 1.5 * shown), stages[TRAIN].memory)
        ending = forecast.cluster(self.clusters, forecast.shape.width, self.partition)
        first = (stages[name] for name in (ENCODE, COMPARE, PREPARE))
        return *first, warming, training, stages[REPRESENT], ending

    def fit(self, bench: Bench, state: State = AFRESH) -> Work[Clustering]:
        """Encode, warm the head up, train; labels are the nearest learnt centres unless another partition is asked."""
        from core.encoder.trunk import Trunk
        from core.learning.networks import UftHeads
        from core.learning.noise import Vocabulary

        beginning = yield from self.begin(bench)
        encoder = bench.load()
        trunk = Trunk(encoder.trainable_model(), int(self.depth))
        source = yield from self.ready(bench, trunk, hides=self.mlm)
        tokens = yield from bench.tokenise(encoder)
        heads = UftHeads(
            trunk, beginning.centres, self.alpha, self.predicted_tokens(tokens), encoder.folder, bench.seed
        )
        learner = self.learner(bench, trunk, heads, source)
        pupil = _Pupil(self, bench, beginning.guard, learner, heads, tokens, Vocabulary.of(encoder.tokenizer))
        yield from pupil.warm_up(state)
        yield from pupil.train(state)
        vectors = yield from represent(learner, len(bench.texts), state)
        learnt = heads.centres.array()
        if self.partition == CENTRES:
            yield StageStarted(CLUSTER)
            clustering = Clustering.from_soft(vectors, soft_assignment(vectors, learnt), learnt)
            yield from tell_unfilled(clustering)
            yield Progress(CLUSTER, 1, 1)
        else:
            clustering = yield from self.cluster(bench, vectors, state, learnt, beginning.partition)
        return replace(clustering.with_beside("q", heads.soft(vectors)), before=beginning.before)


class _Pupil:
    """The two trainings: first the head alone, then everything."""

    def __init__(
        self,
        method: Uft,
        bench: Bench,
        guard: Guard,
        learner: "Learner",
        heads: "UftHeads",
        tokens: Tokens,
        known: "Vocabulary",
    ) -> None:
        self.method, self.guard, self.learner, self.heads = method, guard, learner, heads
        self.tokens, self.known = tokens, known
        self.seed, self.rows = bench.seed, len(bench.texts)
        self.targets: Targets | None = None  # none while only the head learns

    def warm_up(self, state: State) -> Work[None]:
        """Let a new head learn to fill masks; the encoder does not move meanwhile."""
        needed = self.method.mlm and not self.heads.words.is_pretrained
        steps = self.method.warm_up if needed else 0
        if needed:
            how = f"alone for {steps:,} steps before clustering begins" if steps else "beside the clustering"
            yield Note(f"This encoder has no masked-language-model head, so a new one is trained {how}.")

        def take(step: int) -> bool:
            return self._step(step, lambda mlm, _: {"loss": mlm, "masked words": mlm})

        course = Course(WARM, steps, max(steps, 1), keeps_best=False)
        start = self.heads.centres.array()
        yield from train(self.learner, self.guard, course, take, following(self.guard, start), state)

    def train(self, state: State) -> Work[None]:
        """Fill masks and sharpen clusters; the target is that of the whole unmasked set, anew in every epoch."""
        method, learner, heads = self.method, self.learner, self.heads
        length = self.rows // min(method.batch, self.rows)

        def find(number: int) -> Work[np.ndarray]:
            return heads.sharpened((yield from all_vectors(learner, self.rows)))

        self.targets = Targets(TRAIN, length, find, state)

        def both(mlm: "Tensor", clustering: "Tensor") -> "dict[str, Tensor]":
            loss = method.cluster_weight * clustering
            if not method.mlm:
                return {"loss": loss, "clustering": clustering}
            return {"loss": loss + method.mlm_weight * mlm, "clustering": clustering, "masked words": mlm}

        guard = self.guard.follow()
        course = Course(TRAIN, method.epochs * length, method.every)
        take = lambda step: self._step(step, both)  # noqa: E731 - a name for what is passed on

        def centres(vectors: np.ndarray) -> np.ndarray:
            return inhabited(heads.centres.array(), heads.soft(vectors).argmax(1))

        yield from train(learner, guard, course, take, centres, state, targets=self.targets)

    def _step(self, step: int, combine: Any) -> bool:
        import torch

        from core.learning.learner import batch_rows
        from core.learning.noise import masked

        method, learner, heads = self.method, self.learner, self.heads
        rows = batch_rows(self.rows, method.batch, self.seed, step)
        targets = None if self.targets is None else torch.from_numpy(self.targets.values[rows]).to(learner.device)
        if not method.mlm:
            assert targets is not None
            return learner.step(rows, lambda vectors: combine(None, heads.divergence(vectors, targets) / len(rows)))
        texts = self.tokens.taken(rows)
        shown, places = masked(texts, self.known, method.masked, np.random.default_rng([self.seed, learner.steps]))
        hidden = np.full(len(texts.ids), -1, np.int64)
        hidden[places] = texts.ids[places]
        wanted = Tokens(hidden, texts.offsets)
        still = targets is None

        def share(some: np.ndarray, vectors: "Tensor", states: "Tensor", pack: "Pack") -> "dict[str, Tensor]":
            ids = torch.from_numpy(wanted.flat(some[pack.order])).to(learner.device)
            at = ids >= 0
            mlm = heads.words.loss(states[at], ids[at], alone=still) / max(len(places), 1)
            if targets is None:
                return combine(mlm, mlm)
            here = targets[torch.from_numpy(some).to(learner.device)]
            return combine(mlm, heads.divergence(vectors, here) / len(rows))

        return learner.step_apart(shown, share)
