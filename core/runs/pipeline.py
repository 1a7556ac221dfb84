"""The pipeline: the only module that knows the order of things."""

from pathlib import Path

from core.bench import Bench
from core.bench.forecast import Forecast, Stage, known_forecast
from core.clusters.clustering import Clustering
from core.clusters.evaluate import external_metrics, silhouette
from core.events import Measured, Planned, Progress, Snapshot, StageStarted
from core.maps.draw import draw_map
from core.maps.projector import Projector
from core.methods.base import Method
from core.runs.config import MAP_SAMPLE, RunConfig
from core.runs.frames import ENDED
from core.runs.store import Run
from core.stages import DESCRIBE
from core.tables.corpus import Corpus
from core.topics.describe import describe
from core.work import Work


def execute(run: Run, projector: Projector) -> Work[None]:
    """Walk one run from its table to its results, telling what happens; resume from its last checkpoint."""
    config, corpus = run.config, run.corpus()
    bench, method = prepare(config, corpus, run.cache, projector)
    if method.needs_encoder and len(blank := (yield from bench.blank())):
        corpus = run.leave_out(corpus.used[blank])
        bench, method = prepare(config, corpus, run.cache, projector)
    projector.start()
    stages = road(method, known_forecast(bench, config.threads))
    yield Planned(tuple((stage.name, round(stage.seconds, 1)) for stage in stages))

    clustering = yield from judged(method.fit(bench, run.state()), corpus)
    run.results.save_clustering(clustering)
    if taken := run.snapshots():  # the last frame of the live map: how it ended
        rows = run.snapshot(*taken[0]).rows
        yield Snapshot(ENDED, 0, rows, clustering.vectors[rows], clustering.labels[rows])

    sample, layouts = yield from draw_map(clustering.vectors, config.map_sample, config.seed, projector)
    run.results.save_map(sample, layouts)

    yield StageStarted(DESCRIBE)
    words = yield from bench.words()
    run.results.save_topics(describe(corpus.texts, words, clustering))
    run.results.save_metrics(measure(corpus, clustering, config.seed))
    yield Progress(DESCRIBE, 1, 1)


def prepare(config: RunConfig, corpus: Corpus, cache: Path, projector: Projector) -> tuple[Bench, Method]:
    """Lay out the bench and set the method up, refusing in words what cannot work."""
    method = config.build_method()
    bench = Bench(
        corpus.texts,
        config.seed,
        config.encoder or "",
        config.device,
        config.token_limit,
        config.precision,
        cache,
        projector,
        tuple(corpus.view(column) for column in method.reads()),
        revisions=config.revisions,
    )
    method.check(bench)
    return bench, method


def road(method: Method, forecast: Forecast) -> tuple[Stage, ...]:
    """Name all stages of a run in their order, the method's own and those every run ends with."""
    return *method.plan(forecast), *forecast.ending(MAP_SAMPLE)


def judged(work: Work[Clustering], corpus: Corpus) -> Work[Clustering]:
    """Let a method work and hold its snapshots against the true labels, of which it learns nothing."""
    truth = corpus.truth()
    while True:
        try:
            event = next(work)
        except StopIteration as end:
            return end.value
        yield event
        if truth is not None and isinstance(event, Snapshot):
            found = external_metrics(truth[event.rows], event.labels)
            yield Measured(event.stage, event.step, {name: found[name] for name in ("acc", "nmi") if name in found})


def measure(corpus: Corpus, clustering: Clustering, seed: int) -> dict[str, float | int | None]:
    """Measure the clustering; true labels are looked at here for the first time."""
    score, sampled = silhouette(clustering.vectors, clustering.labels, seed)
    metrics: dict[str, float | int | None] = {"silhouette": score, "silhouette_sample": sampled}
    truth = corpus.truth()
    return metrics | (external_metrics(truth, clustering.labels) if truth is not None else {})
