"""What a run will cost: time and memory per stage, from a few batches measured on this machine."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from core.bench import Bench
from core.encoder.shape import TOKENS_HELD, Shape
from core.encoder.source import read_shape
from core.encoder.tokens import Tokens, guess_lengths
from core.stages import CLUSTER, COMPARE, DESCRIBE, ENCODE, MAP, PREPARE, REPRESENT

PROGRAM = 800e6  # bytes that the program with all of its libraries takes before it does anything
_SAMPLE = 1_500
_KMEANS_ROUNDS = 45
_MICRO_TOKENS = 1_024
_ACTIVATIONS = 110  # bytes per token, layer and column while a step waits for its gradient
_MICRO_SECONDS = 0.7


@dataclass(frozen=True)
class Stage:
    """One stage on the road, with a guess of its seconds and of the memory the program has while it lasts."""

    name: str
    seconds: float
    memory: float = PROGRAM


@dataclass(frozen=True)
class Pace:
    """Seconds this machine takes: per multiplication of a forward pass, of a training step, of a k-means round."""

    forward: float = 2.2e-11
    training: float = 2.6e-11
    kmeans: float = 1.2e-11
    loading: float = 1.5


@dataclass(frozen=True)
class Forecast:
    """The sizes of a job beside the pace of a machine. Methods compose their stages from its parts."""

    pace: Pace
    texts: int
    tokens: float
    squares: float = 0.0
    fresh: float = 1.0
    shape: Shape = Shape("", 6, 384, 1_536)

    def forward(self, layers: int, copies: float = 1.0) -> float:
        """Seconds for all tokens, ``copies`` times, through that many layers."""
        return self.pace.forward * layers * copies * self._products()

    def training(self, layers: int, copies: float) -> float:
        """Seconds for so many passes over the corpus through layers that learn."""
        return copies * self._products() * 3 * layers * self.pace.training

    def _products(self) -> float:
        return self.shape.products * self.tokens + 2 * self.shape.width * self.squares

    def encode(self) -> Stage:
        """Encode all texts that are not kept from earlier runs."""
        seconds = self.pace.loading + self.texts / 20_000 + self.fresh * self.forward(self.shape.layers)
        return Stage(ENCODE, seconds, PROGRAM + self.weights() + self.vectors())

    def cluster(self, clusters: int, columns: int, partition: str, starts: int = 10) -> Stage:
        """Start k-means some times, with smoothing or UMAP before it if asked for."""
        held, before = 4.0 * self.texts * columns, 0.0
        if partition in ("auto", "smooth+kmeans", "linkage"):
            before = self._comparing(columns)
        elif partition == "umap+kmeans":
            columns, before = clusters + 1, 5 + 2e-3 * self.texts
        rounds = _KMEANS_ROUNDS * starts * self.texts * clusters
        seconds = before + rounds * (self.pace.kmeans * columns + 1e-9)
        return Stage(CLUSTER, seconds + 0.2, PROGRAM + self.weights() + 3 * held + 16 * self.texts * clusters)

    def deep(self, depth: int, views: int, passes: float, batch: int) -> tuple[Stage, ...]:
        """Make views, compute the frozen layers once, train, and encode anew: what every deep method does.

        ``passes`` is how often the whole corpus goes through the learning layers, one view at a time.
        """
        frozen, share = self.shape.layers - depth, depth / self.shape.layers
        held = PROGRAM + self.weights() * (2 + 3 * share) + self.vectors()
        tokens = depth * batch * 3 * self.tokens / max(self.texts, 1)
        steps = held + min(tokens, TOKENS_HELD) * _ACTIVATIONS * self.shape.width
        return (
            self.encode(),
            Stage(COMPARE, self._comparing(self.shape.width), held),
            Stage("augment", 0.1 if views == 1 else 2 + self.texts / 4_000, held),
            Stage(PREPARE, 1 + self.forward(frozen, views), held),
            Stage("train", 2 + 1.1 * self.training(depth, passes), steps),
            Stage(REPRESENT, 0.5 + self.forward(depth), held + self.vectors()),
        )

    def _comparing(self, columns: int) -> float:
        return 1 + 5e-11 * self.texts * min(self.texts, 20_000) * columns

    def ending(self, sampled: int) -> tuple[Stage, Stage]:
        """Draw the map of a sample and describe the clusters, as every run does at its end."""
        slowness = self.pace.forward / Pace().forward
        drawing = slowness * (8 + min(self.texts, sampled) / 150)
        memory = PROGRAM + self.weights() + 3 * self.vectors()
        return Stage(MAP, drawing, memory), Stage(DESCRIBE, 0.3 + self.tokens / 700_000, memory)

    def weights(self) -> float:
        """Bytes of the encoder: its layers and thirty thousand words."""
        return 4.0 * (self.shape.layers * self.shape.products + 30_000 * self.shape.width)

    def vectors(self) -> float:
        """Bytes of one vector per text."""
        return 4.0 * self.texts * self.shape.width


def rough_forecast(bench: Bench) -> Forecast:
    """Guess from the number of words and the pace of a laptop; takes no time."""
    lengths = guess_lengths(bench.texts, bench.token_limit)
    shape = read_shape(bench.encoder) if bench.encoder else Forecast.shape
    return Forecast(Pace(), len(lengths), float(lengths.sum()), float((lengths**2).sum()), shape=shape)


def measured_forecast(bench: Bench, threads: int) -> Forecast:
    """Tokenise a sample, see how many of its vectors are kept, and run a few batches: under five seconds."""
    if not bench.encoder:
        return rough_forecast(bench)
    encoder = bench.load()
    rows = np.random.default_rng(0).permutation(len(bench.texts))[:_SAMPLE]
    tokens, _ = encoder.tokens([bench.texts[row] for row in rows])
    lengths, scale = tokens.lengths.astype(float), len(bench.texts) / max(len(rows), 1)
    known = bench.kept_vectors(encoder, "mean").find(np.unique(tokens.digests()))[0]
    pace = measure_pace(bench, threads)
    return Forecast(
        pace,
        len(bench.texts),
        scale * float(lengths.sum()),
        scale * float((lengths**2).sum()),
        1 - float(known.mean()) if len(known) else 1.0,
        encoder.shape,
    )


_PACES: dict[tuple[str, str, int, str, int], Pace] = {}
_MEASURING = threading.Lock()


def wait_for_measuring() -> None:
    """Wait until nobody measures this machine: a run that began meanwhile would be measured too, and slowed down."""
    with _MEASURING:
        pass


def known_forecast(bench: Bench, threads: int) -> Forecast:
    """Forecast by the pace of this machine if it was measured before, for a person who was told so; else roughly."""
    return measured_forecast(bench, threads) if _key(bench, threads) in _PACES else rough_forecast(bench)


def measure_pace(bench: Bench, threads: int) -> Pace:
    """Return the pace of this machine, measured once."""
    key = _key(bench, threads)
    with _MEASURING:
        if key not in _PACES:
            _PACES[key] = _measure(bench, threads)
    return _PACES[key]


def _key(bench: Bench, threads: int) -> tuple[str, str, int, str, int]:
    return bench.encoder, bench.device, bench.token_limit, bench.precision, threads


def _measure(bench: Bench, threads: int) -> Pace:
    """Time a few batches forward, a few with learning layers, and a few rounds of k-means."""
    import torch
    from threadpoolctl import threadpool_limits

    from core.encoder.packing import Pack
    from core.encoder.trunk import Trunk, autocast

    torch.set_num_threads(threads)
    with threadpool_limits(threads):
        encoder, device = bench.load(), bench.device
        _, loading = _timed(lambda: encoder.model)
        shape, size = encoder.shape, 16
        ids = np.random.default_rng(0).integers(10, 100, (_MICRO_TOKENS // size, size))
        tokens = Tokens.from_lists(ids.tolist())
        forward = _seconds(lambda: encoder.forward(tokens, "mean")) / (ids.size * shape.layers * shape.products)
        depth = min(2, shape.layers) if shape.splits else shape.layers
        trunk = Trunk(encoder.trainable_model(), depth).to(device)
        pack = Pack(np.full(len(ids), size))
        flat = torch.from_numpy(ids.reshape(-1)).to(device)
        if shape.splits:
            flat = torch.randn(ids.size, shape.width, device=device)

        def learn() -> None:
            with autocast(device, "float32" if device == "cpu" else bench.precision):
                states = trunk(flat, pack)
            states.float().square().sum().backward()

        trunk.train()
        training = _seconds(learn) / (3 * ids.size * depth * shape.products)
        return Pace(forward, training, _kmeans_pace(shape.width), loading + 0.3)


def _kmeans_pace(columns: int, rows: int = 4_000, clusters: int = 16) -> float:
    """Time rounds of k-means on one thread, as the partition does; the first fit only warms up."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    made = np.random.default_rng(0).normal(size=(rows, columns)).astype(np.float32)
    with threadpool_limits(1):
        fit = KMeans(clusters, n_init=1, max_iter=5, tol=0, init=made[:clusters]).fit
        seconds = _seconds(lambda: fit(made))
    return seconds / (6 * rows * clusters * columns)


def _timed(work: Callable[[], object]) -> tuple[object, float]:
    began = time.perf_counter()
    result = work()
    return result, time.perf_counter() - began


def _seconds(work: Callable[[], object]) -> float:
    """Return the middle of a few timings after one to warm up; few of them if one takes long."""
    times = [_timed(work)[1]]
    while len(times) < 4 and sum(times) + times[-1] < _MICRO_SECONDS * 1.5:
        times.append(_timed(work)[1])
    return float(np.median(times[1:])) if len(times) > 1 else times[0]
