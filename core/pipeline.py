"""The pipeline: the only module that knows the order of things."""

from pathlib import Path

import numpy as np

from core.bench import Bench
from core.clustering import Clustering, nearest
from core.corpus import Corpus
from core.events import Planned, Progress, StageStarted
from core.methods.base import Method, Stage
from core.runs.config import MAP_SAMPLE, RunConfig
from core.runs.store import Run
from core.steps.describe import describe
from core.steps.evaluate import external_metrics, silhouette
from core.steps.project import LAYOUTS
from core.steps.projector import Projector
from core.work import Work

_PLACED_BY = 5  # nearest sampled rows that say where a row outside the sample goes


def execute(run: Run, projector: Projector) -> Work[None]:
    """Walk one run from its table to its results, telling what happens; resume from its last checkpoint."""
    config, corpus = run.config, run.corpus()
    bench, method = prepare(config, corpus, run.cache, projector)
    projector.start()
    yield Planned(tuple((stage.name, round(stage.seconds, 1)) for stage in road(method, bench)))

    clustering = yield from method.fit(bench, run.checkpoint())
    run.save_clustering(clustering)

    sample, layouts = yield from draw_map(clustering, config, projector)
    run.save_map(sample, layouts)

    yield StageStarted("describe")
    run.save_topics(describe(corpus.texts, clustering))
    run.save_metrics(measure(corpus, clustering, config.seed))
    yield Progress("describe", 1, 1)


def prepare(config: RunConfig, corpus: Corpus, cache: Path, projector: Projector) -> tuple[Bench, Method]:
    """Lay out the bench and set the method up, refusing in words what cannot work."""
    bench = Bench(
        corpus.texts,
        config.seed,
        config.encoder or "",
        config.device,
        config.token_limit,
        config.precision,
        cache,
        projector,
    )
    method = config.build_method()
    method.check(bench)
    return bench, method


def road(method: Method, bench: Bench) -> tuple[Stage, ...]:
    """Name all stages of a run in their order, the method's own and those every run ends with."""
    sampled = min(len(bench.texts), MAP_SAMPLE)
    return (*method.plan(bench), Stage("map", 8 + sampled / 150), Stage("describe", 1 + sampled / 1_000))


def draw_map(
    clustering: Clustering, config: RunConfig, projector: Projector
) -> Work[tuple[np.ndarray, dict[str, np.ndarray]]]:
    """Lay out a random sample by each layout; every other row goes where its nearest sampled rows are."""
    rows = len(clustering.vectors)
    sample = np.arange(rows)
    if rows > config.map_sample:
        sample = np.sort(np.random.default_rng(config.seed).choice(rows, config.map_sample, replace=False))
    layouts = {}
    yield StageStarted("map", len(LAYOUTS))
    for done, layout in enumerate(LAYOUTS, start=1):
        drawn = yield from projector.project(clustering.vectors[sample], layout=layout, dims=2, seed=config.seed)
        layouts[layout] = place(clustering.vectors, sample, drawn)
        yield Progress("map", done, len(LAYOUTS))
    return sample, layouts


def place(vectors: np.ndarray, sample: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Give every row a point: its own if sampled, else the weighted mean of its nearest sampled rows."""
    points = np.empty((len(vectors), drawn.shape[1]), np.float32)
    points[sample] = drawn
    rest = np.setdiff1d(np.arange(len(vectors)), sample, assume_unique=True)
    if len(rest):
        near, distances = nearest(vectors[rest], vectors[sample], min(_PLACED_BY, len(sample)))
        weights = 1 / (distances + 1e-6)
        points[rest] = (drawn[near] * (weights / weights.sum(1, keepdims=True))[..., None]).sum(1)
    return points


def measure(corpus: Corpus, clustering: Clustering, seed: int) -> dict[str, float | int | None]:
    """Measure the clustering; true labels are looked at here for the first time."""
    score, sampled = silhouette(clustering.vectors, clustering.labels, seed)
    metrics: dict[str, float | int | None] = {"silhouette": score, "silhouette_sample": sampled}
    truth = corpus.truth()
    return metrics | (external_metrics(truth, clustering.labels) if truth is not None else {})
