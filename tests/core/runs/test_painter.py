"""The live map: frames lie on one another, the painter draws them beside a run, a moment can be kept as the result."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from core.clusters.evaluate import accuracy
from core.errors import BadInput
from core.events import Checkpoint, Event, Measured, Note, Snapshot
from core.maps.align import aligned, displacement
from core.maps.project import LAYOUTS
from core.maps.projector import Projector
from core.runs.frames import ENDED, Frame, numbered_as_at_the_end
from core.runs.painter import Painter, paint
from core.runs.store import Run, Store
from core.runs.trained import trained_encoder
from core.runs.worker import Worker, drive
from core.tables.corpus import Corpus
from tests.conftest import drained, make_config
from tests.core.runs.test_worker import wait_for

QUICK = {"steps": 6, "every": 2, "depth": "1", "rate": 1e-3}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a finished run with snapshots and no frames yet."""
    from tests.conftest import obvious_table

    store, corpus = Store(tmp_path_factory.mktemp("runs")), Corpus(obvious_table(), "text", "group")
    run = store.create(make_config(corpus, "sccl", **QUICK), corpus)
    projector = Projector()
    assert drive(run, projector, lambda: False) == "finished", run.story().traceback
    projector.close()
    return run


def test_a_map_that_was_only_moved_turned_mirrored_and_scaled_comes_back() -> None:
    random = np.random.default_rng(0)
    points = random.normal(size=(40, 2)).astype(np.float32)
    turn = Rotation.from_euler("z", 70, degrees=True).as_matrix()[:2, :2] @ np.diag([1, -1])
    changed = 3.5 * points @ turn + np.array([9, -4])
    np.testing.assert_allclose(aligned(changed, points), points, atol=1e-4)
    assert displacement(aligned(changed, points), points, np.ones(40, bool)) < 1e-4
    assert aligned(np.zeros((3, 2)), np.ones((3, 2))).tolist() == [[1, 1]] * 3


def test_alignment_never_makes_it_worse_and_displacement_is_done_by_hand() -> None:
    random = np.random.default_rng(1)
    before, after = random.normal(size=(2, 60, 2)).astype(np.float32)
    everything = np.ones(60, bool)
    plain = displacement(after - after.mean(0) + before.mean(0), before, everything)
    assert displacement(aligned(after, before), before, everything) < plain
    square = np.array([[0, 0], [2, 0], [0, 2], [2, 2]], np.float32)
    moved = square + np.array([[1, 0], [0, 0], [0, 0], [0, 0]], np.float32)
    assert displacement(moved, square, np.array([True, True, False, False])) == pytest.approx(0.5 / np.sqrt(2))
    assert displacement(moved, square, np.zeros(4, bool)) == 0.0


def test_a_map_stays_as_wide_as_it_was_however_many_frames_follow() -> None:
    random = np.random.default_rng(0)
    first = points = random.normal(size=(200, 2)).astype(np.float32)
    for _ in range(40):
        points = aligned(3 * (points + 0.2 * random.normal(size=points.shape)), points)
    assert points.std() == pytest.approx(first.std(), rel=1e-3)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_frame_begins_where_the_last_one_ended(layout: str, projector: Projector) -> None:
    random = np.random.default_rng(0)
    groups = np.repeat(np.arange(4), 40)
    vectors = (5 * np.eye(4)[groups] + random.normal(size=(160, 4))).astype(np.float32)
    first, _ = drained(projector.project(vectors, layout=layout, dims=2, seed=0))
    nearly = vectors + 0.05 * random.normal(size=vectors.shape).astype(np.float32)
    warm, _ = drained(projector.project(nearly, start=first, layout=layout, dims=2, seed=0))
    cold, _ = drained(projector.project(nearly, layout=layout, dims=2, seed=1))
    everything = np.ones(len(vectors), bool)
    gentle = displacement(aligned(warm, first), first, everything)
    assert gentle < 0.35 and gentle < displacement(cold, first, everything)


def test_the_painter_draws_every_snapshot_by_every_layout_and_ends(trained: Run, projector: Projector) -> None:
    names = trained.snapshots()
    assert names[0] == ("train", 0) and names[-1] == ("cluster", 0) and len(names) >= 3
    painter = Painter(trained, projector)
    painter.finish()
    wait_for(lambda: not painter.is_at_work())
    frames = trained.frames()
    assert not frames.missing() and all(frames.names(layout) == names for layout in LAYOUTS)
    for name in names:
        frame = frames.open(*name, "umap")
        assert frame.points.shape == (len(frame.rows), 2) and np.isfinite(frame.points).all()
        np.testing.assert_array_equal(frame.labels, trained.snapshot(*name).labels)
    assert frames.before(*names[1], "umap").step == names[0][1]  # type: ignore[union-attr]
    later = [frames.moved(*name, "umap") for name in names[1:]]
    assert all(0 < moved < 0.6 for moved in later)  # two maps that know nothing of each other: about 1.25


def test_closing_the_painter_stops_it_at_once(trained: Run, tmp_path: Path) -> None:
    for path in (trained.folder / "frames").glob("*"):
        path.unlink()
    projector = Projector()
    painter = Painter(trained, projector)
    wait_for(lambda: len(trained.frames().missing()) < len(LAYOUTS) * len(trained.snapshots()), 120)
    painter.close()
    left = trained.frames().missing()
    assert not painter.is_at_work() and left  # it had more to do
    projector.close()
    assert trained.frames().missing() == left


def test_the_worker_paints_beside_the_run(corpus: Corpus, store: Store) -> None:
    worker = Worker(store)
    run = store.create(make_config(corpus, "sccl", **QUICK), corpus)
    worker.start(run.id)
    wait_for(lambda: run.status() == "finished", 240)
    wait_for(lambda: not store.open(run.id).frames().missing(), 240)
    assert worker._painter is not None
    wait_for(lambda: not worker._painter.is_at_work())  # type: ignore[union-attr]
    worker.close()


def test_a_run_can_stop_after_its_stage_and_go_on(
    corpus: Corpus, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker(store)
    run = store.create(make_config(corpus, "sccl", **QUICK), corpus)
    worker.start(run.id)
    wait_for(lambda: store.open(run.id).story().stage is not None)
    stage = store.open(run.id).story().stage
    worker.stop_after_stage(run.id)
    assert worker.is_stopping_after_stage(run.id) or run.status() == "stopped"
    wait_for(lambda: run.status() == "stopped", 240)
    road = list(run.story().road)
    assert run.story().seconds and (stage is None or road.index(run.story().stage) >= road.index(stage))  # type: ignore[arg-type]
    worker.start(run.id)
    assert worker.queue() == [run.id]
    wait_for(lambda: run.status() == "finished", 240)
    assert not worker.is_stopping_after_stage(run.id)
    worker.close()


def test_clusters_keep_their_numbers_from_the_first_frame_to_the_last() -> None:
    truth = np.repeat(np.arange(3), 20)
    first, then = (truth + 1) % 3, (truth + 1) % 3  # numbers of the training
    first[0] = 0

    def frame(stage: str, labels: np.ndarray) -> Frame:
        return Frame(stage, 5, "umap", np.arange(60), np.zeros((60, 2), np.float32), labels)

    shown = numbered_as_at_the_end([frame("train", first), frame("train", then), frame(ENDED, truth)])
    assert (shown[1].labels == truth).all() and (shown[2].labels == truth).all()
    assert (shown[0].labels != truth).sum() == 1, "a text that was elsewhere is still elsewhere"
    assert (numbered_as_at_the_end([frame("train", first)])[0].labels == first).all()


def test_a_run_that_has_just_ended_can_be_started_again(
    corpus: Corpus, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = Painter.finish
    monkeypatch.setattr(Painter, "finish", lambda painter: (time.sleep(0.5), finish(painter)))  # still putting away
    worker = Worker(store)
    run = store.create(make_config(corpus, "tfidf"), corpus)
    worker.start(run.id)
    wait_for(lambda: run.status() == "finished", 60)
    worker.start(run.id)
    wait_for(lambda: worker.is_idle() and run.status() == "finished", 60)
    worker.close()


def test_another_moment_can_be_kept_as_the_result(corpus: Corpus, store: Store, projector: Projector) -> None:
    run = store.create(make_config(corpus, "sccl", **(QUICK | {"partition": "kmeans"})), corpus)
    told: list[Event] = []
    assert drive(run, projector, lambda: False, told.append) == "finished", run.story().traceback
    looks = run.looks()
    assert looks == [name for name in run.snapshots() if name[0] == "train"]
    ended = run.results.clustering().vectors.copy()
    first = next(event for event in told if isinstance(event, Snapshot))
    ending = (*run.snapshots()[-1], "umap")
    drained(paint(run, projector, *ending))
    assert ending not in run.frames().missing()
    run.choose("train", 0)
    again: list[Event] = []
    assert drive(run, projector, lambda: False, again.append) == "finished", run.story().traceback
    kept = run.results.clustering().vectors
    assert ending in run.frames().missing()  # the picture of the end shows another end
    assert any("is kept, as asked for" in event.text for event in again if isinstance(event, Note))
    unit = first.vectors / np.linalg.norm(first.vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(kept[first.rows], unit, atol=3e-3)
    assert np.abs(kept - ended).max() > 1e-3
    encoder = trained_encoder(run)
    for rows, batch in encoder.vectors(encoder.tokens(corpus.texts)[0], "mean"):
        np.testing.assert_allclose(batch / np.linalg.norm(batch, axis=1, keepdims=True), kept[rows], atol=3e-3)
    with pytest.raises(BadInput, match="no checkpoint"):
        run.choose("train", 999)
    with pytest.raises(BadInput, match="no checkpoint"):
        run.choose("cluster", 0)


def test_an_early_stage_that_is_kept_leaves_the_later_ones_nothing_to_do(
    corpus: Corpus, store: Store, projector: Projector
) -> None:
    knobs = {"batch": 9, "every": 3, "depth": "1", "rate": 1e-3}
    run = store.create(make_config(corpus, "clusterbert", **knobs), corpus)
    assert drive(run, projector, lambda: False) == "finished", run.story().traceback
    run.choose(*[name for name in run.looks() if name[0] == "form"][-1])
    told: list[Event] = []
    assert drive(run, projector, lambda: False, told.append) == "finished", run.story().traceback
    assert not any(isinstance(event, Checkpoint) and event.stage == "harden" for event in told)


@pytest.mark.parametrize("stage", ["adapt", "form"])
def test_a_moment_of_a_run_that_was_stopped_is_kept_without_training_on(
    stage: str, corpus: Corpus, store: Store, projector: Projector
) -> None:
    knobs = {"batch": 9, "every": 3, "depth": "1", "rate": 1e-3, "adapt_epochs": 1.0, "partition": "kmeans"}
    run = store.create(make_config(corpus, "clusterbert", **knobs), corpus)
    told: list[Event] = []
    forming = lambda: any(isinstance(event, Snapshot) and event.stage == "form" for event in told)  # noqa: E731
    assert drive(run, projector, forming, told.append) == "stopped"
    kept = [name for name in run.looks() if name[0] == stage][-1]
    run.choose(*kept)
    told.clear()
    assert drive(run, projector, lambda: False, told.append) == "finished", run.story().traceback
    assert not any(isinstance(event, Measured) and event.stage in ("form", "harden") for event in told)
    snapshot, vectors = run.snapshot(*kept), run.results.clustering().vectors
    unit = snapshot.vectors / np.linalg.norm(snapshot.vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors[snapshot.rows], unit, atol=3e-3)
    said = np.load(run.folder / "clustering" / "beside-p.npy").argmax(1)  # no head that was never told of clusters
    assert accuracy(said.astype(str), run.results.clustering().labels) > 0.9


def test_a_picture_that_fails_is_left_out_and_after_three_the_painter_gives_up(
    trained: Run, projector: Projector, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (trained.folder / "frames").glob("*"):
        path.unlink()
    wanted = trained.frames().missing()
    for broken in (wanted, wanted[1:2]):

        def fails(run: Run, projector: Projector, *frame: Any, broken: list[Any] = broken) -> Iterator[None]:
            if frame in broken:
                raise RuntimeError("The projecting process ended with code -9.")
            yield from paint(run, projector, *frame)

        monkeypatch.setattr("core.runs.painter.paint", fails)
        painter = Painter(trained, projector)
        painter.finish()
        painter.wait()
        assert painter.gave_up == (broken == wanted) and trained.frames().missing() == broken


def test_a_frame_can_be_drawn_alone(trained: Run, projector: Projector, tmp_path: Path) -> None:
    stage, step = trained.snapshots()[0]
    drained(paint(trained, projector, stage, step, "umap"))
    assert trained.frames().open(stage, step, "umap").layout == "umap"
