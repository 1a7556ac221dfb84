"""TSDAE: the encoder adapts to the domain by reconstructing texts from a few of their words (Wang et al., 2021)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from core.bench import Bench
from core.bench.forecast import Forecast, Stage
from core.clusters.clustering import Clustering, cluster_means
from core.encoder.shape import DECODABLE
from core.encoder.source import read_shape
from core.encoder.tokens import Tokens
from core.errors import BadInput
from core.learning.guard import Guard, inhabited
from core.learning.loop import Course, represent, train
from core.methods.base import knob
from core.methods.deep import AS_PAPERS_DO, BALANCED, PAPER, QUICK, Beginning, TokenPredicting
from core.stages import ABOUT, CLUSTER, COMPARE, ENCODE, PREPARE, REPRESENT
from core.state import AFRESH, State
from core.work import Work

if TYPE_CHECKING:  # torch is loaded when it is needed
    from torch import Tensor

    from core.encoder.packing import Pack
    from core.learning.learner import Learner, Source
    from core.learning.networks import DenoisingHeads

ADAPT, DECODER = "adapt", "prepare decoder"
_TOKENS_KNOWN = 30_000  # by most encoders
_SAMPLE = 500


@dataclass(frozen=True)
class Tsdae(TokenPredicting):
    """Teaches the language model the wording of your texts: it learns to reconstruct each text from a few of its words.

    Choose it for texts unlike any that a general model has read, to see what their wording alone brings.

    Relations: embed is this without learning; clusterbert goes on from here and lets clusters form.
    """

    name = "tsdae"
    title = "Domain adaptation (TSDAE)"
    usual_pooling = "first"  # as in the paper
    stages: ClassVar[tuple[str, ...]] = (ENCODE, COMPARE, PREPARE, DECODER, ADAPT, REPRESENT, CLUSTER)
    about: ClassVar[Mapping[str, str]] = ABOUT | {
        DECODER: "The same is computed for the decoder, which reads the texts word by word.",
        ADAPT: "The language model learns to reconstruct each text from a few of its words: it picks up your wording.",
    }
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        QUICK: {"depth": "1"},
        BALANCED: {},
        PAPER: {
            "batch": 8,
            "every": 500,
            "rate": 3e-5,
            "head_rate": 3e-5,
            "depth": "all",
            "pooling": "first",
            "softmax": "full",
        }
        | AS_PAPERS_DO,
    }

    adapt_epochs: float = knob(1.0, "Epochs of denoising: texts are reconstructed from a few words.", low=0, high=50)
    noise: float = knob(0.6, "The share of words that are deleted.", low=0.0, high=0.95, advanced=True)
    batch: int = knob(64, "How many texts are seen in one step.", low=2, high=4_096, advanced=True)
    head_rate: float = knob(1e-3, "Learning rate of the decoder's own parts.", low=0.0, high=1.0, advanced=True)
    every: int = knob(100, "Steps between two looks at the clusters.", low=1, high=10_000, advanced=True)

    # How much it does ---------------------------------------------------------------------------------------------

    @property
    def epochs(self) -> dict[str, float]:
        """How many epochs each training stage takes."""
        return {ADAPT: self.adapt_epochs}

    def steps_per_epoch(self, texts: int) -> int:
        """Return the number of whole batches in an epoch."""
        return texts // min(self.batch, texts)

    def reconstructs(self, stage: str) -> bool:
        """Say whether a stage has the reconstruction loss."""
        return True

    @property
    def _left(self) -> float:
        """The share of all tokens that noise leaves, those around a text included."""
        return 1.0 - self.noise + 0.2

    def trained_tokens(self, lengths: np.ndarray) -> tuple[float, float]:
        """Noise is fresh in every epoch, so the frozen layers read it each time; whole texts they read twice in all."""
        tokens = float(lengths.sum())
        frozen = 2.0 + sum(self.epochs.values()) * self._left
        return frozen * tokens, tokens * sum(
            epochs * (self._left + self.reconstructs(stage)) for stage, epochs in self.epochs.items()
        )

    def check(self, bench: Bench) -> None:
        """Also refuse an encoder that cannot decode, and to teach one that may not learn."""
        super().check(bench)
        if self.depth == "0":
            raise BadInput("With depth 0 no layer is trained, so nothing would be learnt: choose 1 or more.")
        kind = read_shape(bench.encoder).kind
        if kind not in DECODABLE:
            raise BadInput(
                f"The encoder “{bench.encoder}” is a {kind or 'model of unknown kind'}, which cannot serve as a "
                f"decoder; those of {', '.join(DECODABLE)} can."
            )

    def plan(self, forecast: Forecast) -> tuple[Stage, ...]:
        """Say that the trainings take most of the time."""
        depth = self.depth_of(forecast.shape)
        stages = {stage.name: stage for stage in forecast.deep(depth, 1, 1, min(self.batch, forecast.texts))}
        reading = forecast.training(depth, self._left) + forecast.forward(forecast.shape.layers - depth, self._left)
        # The softmax over some ten thousand tokens costs about as much as a layer and a half of the embedded encoder.
        shape = forecast.shape
        softmax = 1.5 if self.softmax != "full" else _TOKENS_KNOWN * shape.width / shape.products
        decoding = forecast.training(depth, 1) + softmax * forecast.training(1, 1)
        memory = stages["train"].memory
        trainings = [
            Stage(name, 1 + 1.1 * epochs * (reading + decoding * self.reconstructs(name)), memory)
            for name, epochs in self.epochs.items()
        ]
        decoder = replace(stages[PREPARE], name=DECODER)
        before = (*(stages[name] for name in (ENCODE, COMPARE, PREPARE)), decoder)
        ending = forecast.cluster(self.clusters, forecast.shape.width, self.partition)
        return *before, *trainings, stages[REPRESENT], ending

    # The work -----------------------------------------------------------------------------------------------------

    def fit(self, bench: Bench, state: State = AFRESH) -> Work[Clustering]:
        """Encode, prepare, adapt, then partition what was learnt."""
        learner, beginning, _, _ = yield from self._adapted(bench, state)
        vectors = yield from represent(learner, len(bench.texts), state)
        clustering = yield from self.cluster(bench, vectors, state, how=beginning.partition)
        return replace(clustering, before=beginning.before)

    def _adapted(self, bench: Bench, state: State) -> Work[tuple["Learner", Beginning, "DenoisingHeads", "Noise"]]:
        """Return the learner at the end of the first stage, how it began, its heads and what makes texts noisy."""
        from core.encoder.trunk import Trunk
        from core.learning.networks import DenoisingHeads

        beginning = yield from self.begin(bench)
        encoder = bench.load()
        trunk = Trunk(encoder.trainable_model(), int(self.depth))
        source = yield from self.ready(bench, trunk)
        kept = yield from bench.prepare_decoder(trunk, DECODER)
        tokens = yield from bench.tokenise(encoder)
        heads = DenoisingHeads(trunk, self.clusters, self.predicted_tokens(tokens), encoder.folder, bench.seed)
        learner = self.learner(bench, trunk, heads, source)
        noise = Noise(tokens, kept, encoder.tokenizer, self.noise, self.batch, bench.seed)
        guard = beginning.guard

        def take(step: int) -> bool:
            texts, left, drawn = noise.batch(step, learner.steps)
            predicted = max(int((texts.lengths - 1).sum()), 1)

            def share(rows: np.ndarray, vectors: "Tensor", states: "Tensor", pack: "Pack") -> "dict[str, Tensor]":
                term = heads.decoder.loss(vectors, texts.taken(rows), noise.kept(drawn[rows])) / predicted
                return {"loss": term, "reconstruction": term}

            return learner.step_apart(left, share, texts.lengths)

        steps = round(self.adapt_epochs * self.steps_per_epoch(len(bench.texts)))
        steps = max(steps, int(self.adapt_epochs > 0))  # a small table has few in an epoch
        course = Course(ADAPT, steps, self.every, keeps_best=False)
        yield from train(learner, guard, course, take, following(guard, beginning.centres), state)
        return learner, beginning, heads, noise


def following(guard: Guard, start: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return where the guard's clusters start: where given, later where the clusters of the last look lie now."""

    def centres(vectors: np.ndarray) -> np.ndarray:
        if not guard.looks:
            return start
        return inhabited(cluster_means(vectors, guard.labels, guard.clusters), guard.labels)

    return centres


class Noise:
    """Makes the batches of a denoising training: the texts of a step, and what is left of them."""

    def __init__(
        self, tokens: Tokens, kept: "Source | None", tokenizer: object, ratio: float, size: int, seed: int
    ) -> None:
        """Know the corpus's tokens, what a decoder's frozen layers make of them, and which of them begin words."""
        from core.learning.noise import Vocabulary

        self.tokens, self._kept, self.known = tokens, kept, Vocabulary.of(tokenizer)
        self.ratio, self.size, self.seed = ratio, size, seed

    def batch(self, step: int, drawn: int) -> tuple[Tokens, Tokens, np.ndarray]:
        """Return the texts of a stage's step, what is left of them, and their rows; ``drawn`` makes noise fresh."""
        from core.learning.learner import batch_rows
        from core.learning.noise import without_words

        rows = batch_rows(len(self.tokens), self.size, self.seed, step)
        texts = self.tokens.taken(rows)
        return texts, without_words(texts, self.known, self.ratio, np.random.default_rng([self.seed, drawn])), rows

    def sample(self) -> tuple[Tokens, np.ndarray]:
        """Return what noise leaves of some texts that no step has drawn, and their rows."""
        from core.learning.noise import without_words

        rows = np.linspace(0, len(self.tokens), min(_SAMPLE, len(self.tokens)), endpoint=False).astype(np.int64)
        return without_words(self.tokens.taken(rows), self.known, self.ratio, np.random.default_rng(self.seed)), rows

    def kept(self, rows: np.ndarray) -> np.ndarray | None:
        """Return what the decoder's frozen layers make of some texts, if that was computed before."""
        return None if self._kept is None else self._kept.flat(rows)
