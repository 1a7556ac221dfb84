"""Every state of a run against every action of the worker, and what many runs leave behind: nothing."""

import errno
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import core.runs.worker
from core.errors import BadInput
from core.events import Ended, Planned, StageStarted
from core.maps.projector import Projector
from core.methods.bow import Bow
from core.runs.store import Run, Store
from core.runs.worker import Worker, drive
from core.tables.corpus import Corpus
from tests.conftest import make_config
from tests.core.runs.test_worker import slowly, wait_for

REFUSED = "refused"
GOES_ON = "at work or waiting"
# What becomes of a run in each state by each action; the run at work is held in its stage meanwhile.
# A start of one that is about to stop waits until it has.
TABLE = {
    "new": {"start": GOES_ON, "stop": "interrupted", "stop after stage": "interrupted", "close": "interrupted"},
    "queued": {"start": REFUSED, "stop": "stopped", "stop after stage": "queued", "close": "stopped"},
    "running": {"start": REFUSED, "stop": "stopped", "stop after stage": "running", "close": "stopped"},
    "stopping": {"start": GOES_ON, "stop": "stopped", "stop after stage": "stopped", "close": "stopped"},
    "finished": {"start": GOES_ON, "stop": "finished", "stop after stage": "finished", "close": "finished"},
    "stopped": {"start": GOES_ON, "stop": "stopped", "stop after stage": "stopped", "close": "stopped"},
    "failed": {"start": GOES_ON, "stop": "failed", "stop after stage": "failed", "close": "failed"},
    "interrupted": {"start": GOES_ON, "stop": "interrupted", "stop after stage": "interrupted", "close": "interrupted"},
}
ACTIONS = {
    "start": Worker.start,
    "stop": Worker.stop,
    "stop after stage": Worker.stop_after_stage,
    "close": lambda worker, _: worker.close(),
    "keep": lambda worker, name: worker.start(name, keep=("count words", 0)),
    "paint": Worker.paint,
}


@pytest.fixture
def worker(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    """Return a worker whose runs stay in their stage until it is closed, and that is soon sure that a run is taken."""
    slowly(monkeypatch)
    monkeypatch.setattr(Run.claim, "__defaults__", (0.2,))
    worker = Worker(store)
    yield worker
    worker.close()


def brought_to(state: str, worker: Worker, corpus: Corpus) -> Run:
    """Return a run in the given state."""
    first, run = (worker.store.create(make_config(corpus, "bow"), corpus) for _ in range(2))
    if state == "queued":
        worker.start(first.id)
    if state in ("queued", "running", "stopping"):
        worker.start(run.id)
        wait_for(lambda: run.status() == ("queued" if state == "queued" else "running"))
    if state == "stopping":
        worker._stop.add(run.id)  # as a stop does; it comes about as soon as the run looks
    if state in ("finished", "stopped", "failed", "interrupted"):
        events = [Planned((("count words", 1.0),)), StageStarted("count words")]
        for event in events if state == "interrupted" else [*events, Ended(state)]:
            run.record(event)
    return run


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("state", TABLE)
def test_every_action_in_every_state(state: str, action: str, worker: Worker, corpus: Corpus) -> None:
    # These runs have nothing to keep, and a picture changes no run.
    as_before = {"new": "interrupted", "stopping": "stopped"}.get(state, state)
    wanted = {"keep": REFUSED, "paint": as_before}.get(action) or TABLE[state][action]
    run = brought_to(state, worker, corpus)
    if wanted == REFUSED:
        with pytest.raises(BadInput, match=r"already being worked on|There is no checkpoint"):
            ACTIONS[action](worker, run.id)
        wait_for(lambda: run.status() == as_before)
        assert worker.owns(run.id) == (state in ("queued", "running"))
        return
    ACTIONS[action](worker, run.id)
    if wanted == GOES_ON:
        wait_for(lambda: run.status() == "running")
        assert worker.owns(run.id) and worker.queue() == [run.id]
    else:
        wait_for(lambda: run.status() == wanted)
    wait_for(lambda: state != "stopping" or action == "start" or not worker.queue())
    assert worker.is_stopping_after_stage(run.id) == (state == "running" and action == "stop after stage")
    if action == "close":
        with pytest.raises(BadInput, match="shutting down"):
            worker.start(run.id)
        assert not run.is_claimed()


def test_a_stop_after_the_stage_comes_when_the_next_begins(
    store: Store, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, worker = slowly(monkeypatch), Worker(store)
    run = store.create(make_config(corpus, "bow"), corpus)
    worker.start(run.id)
    wait_for(lambda: run.story().stage == Bow.stages[0])
    worker.stop_after_stage(run.id)
    go.set()
    wait_for(lambda: run.status() == "stopped")
    worker.close()


def test_a_finished_run_that_is_withdrawn_before_it_is_made_anew_is_finished_still(
    store: Store, corpus: Corpus, monkeypatch: pytest.MonkeyPatch, projector: Projector
) -> None:
    knobs = {"steps": 4, "every": 2, "depth": "1", "batch": 9}
    finished = store.create(make_config(corpus, "sccl", **knobs), corpus)
    assert drive(finished, projector, lambda: False) == "finished"
    seconds, labels = dict(finished.story().seconds), np.array(finished.results.clustering().labels)
    slowly(monkeypatch)
    worker = Worker(store)
    worker.start(store.create(make_config(corpus, "bow"), corpus).id)
    worker.start(finished.id, keep=("train", 2))
    worker.stop(finished.id)
    assert finished.status() == "finished" and finished.story().seconds == seconds
    assert finished.state().choice is None and (finished.results.clustering().labels == labels).all()
    finished.choose("train", 2)
    worker.start(finished.id, keep=("train", 4))
    worker.stop(finished.id)
    assert finished.state().choice.step == 2  # the choice that stood before stands again
    with pytest.raises(BadInput, match="no checkpoint"):
        worker.start(finished.id, keep=("train", 999))
    assert not finished.is_claimed() and finished.status() == "finished"
    worker.close()


def test_the_folder_of_a_run_at_work_may_go_and_does_not_come_back(
    store: Store, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, worker = slowly(monkeypatch), Worker(store)
    run = store.create(make_config(corpus, "bow"), corpus)
    worker.start(run.id)
    wait_for(lambda: run.story().stage == Bow.stages[0])
    shutil.rmtree(run.folder)
    assert not run.is_claimed() and not run.folder.exists()
    with pytest.raises(BadInput, match="gone"):
        run.claim()
    go.set()
    wait_for(worker.is_idle)
    assert not run.folder.exists()
    worker.close()


def test_a_failed_run_that_is_queued_and_withdrawn_is_failed_still(
    store: Store, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    slowly(monkeypatch)
    worker = Worker(store)
    first, failed = (store.create(make_config(corpus, "bow"), corpus) for _ in range(2))
    failed.record(Ended("failed", "It went wrong.", "Traceback"))
    worker.start(first.id)
    worker.start(failed.id)
    worker.stop(failed.id)
    story = store.open(failed.id).story()
    assert (story.phase, story.message, story.traceback) == ("failed", "It went wrong.", "Traceback")
    worker.close()


@pytest.mark.parametrize("fault", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: 4 GB")])
def test_too_little_memory_is_told_in_a_sentence(
    store: Store, corpus: Corpus, projector: Projector, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    def run_out(*_: object) -> None:
        raise fault

    run = store.create(make_config(corpus, "bow"), corpus)
    monkeypatch.setattr("core.runs.results.Results.save_clustering", run_out)
    assert drive(run, projector, lambda: False) == "failed"
    assert run.story().message == "The machine has too little memory for this run."


def test_memory_is_given_back_on_systems_that_have_no_such_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def windows(name: object) -> None:
        raise TypeError("argument of type 'NoneType' is not iterable")

    monkeypatch.setattr("ctypes.CDLL", windows)
    core.runs.worker._give_memory_back()


def test_a_full_disk_is_told_in_a_sentence_though_a_line_was_torn(
    store: Store, corpus: Corpus, projector: Projector, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = store.create(make_config(corpus, "bow"), corpus)

    def fill(*_: object) -> None:
        with run.log.path.open("ab") as file:
            file.write(b'{"time": 1, "eve')
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("core.runs.results.Results.save_clustering", fill)
    assert drive(run, projector, lambda: False) == "failed"
    assert store.open(run.id).story().message == "The disk is full: make room, then resume."


def test_pictures_that_cannot_be_drawn_are_not_tried_for_ever(
    store: Store, corpus: Corpus, projector: Projector, monkeypatch: pytest.MonkeyPatch
) -> None:
    knobs = {"steps": 2, "every": 2, "depth": "1", "batch": 9}
    run = store.create(make_config(corpus, "sccl", **knobs), corpus)
    assert drive(run, projector, lambda: False) == "finished"
    broken = next((run.folder / "snapshots").glob("train-*"))
    broken.write_bytes(b"damaged")
    worker = Worker(store)
    for _ in range(20):
        if not worker.paint(run.id):
            break
        wait_for(lambda: not worker._painter.is_at_work())  # type: ignore[union-attr]
    assert not worker.paint(run.id) and len(run.frames().missing()) == 2  # by UMAP and by t-SNE
    shutil.rmtree(run.folder)
    assert not worker.paint(run.id)
    worker.close()


def test_a_run_whose_folder_is_gone_does_not_hold_up_the_others(
    store: Store, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, worker = slowly(monkeypatch), Worker(store)
    first, gone, also_gone, last = (store.create(make_config(corpus, "bow"), corpus) for _ in range(4))
    for run in (first, gone, also_gone, last):
        worker.start(run.id)
    wait_for(lambda: first.status() == "running")
    for run in (gone, also_gone):
        shutil.rmtree(run.folder)
    worker.stop(also_gone.id)
    go.set()
    wait_for(lambda: last.status() == "finished", 60)
    wait_for(worker.is_idle)
    worker.close()


MANY = """
import gc, sys, threading, time
from pathlib import Path
import psutil, torch
torch.set_num_threads(1)
from core.tables.corpus import Corpus
from core.runs.store import Store
from core.runs.worker import Worker
from tests.conftest import make_config, obvious_table

def counted():
    gc.collect()
    me = psutil.Process()
    return me.memory_full_info().uss, me.num_fds(), me.num_threads(), len(me.children(recursive=True))

def queued_and_cancelled(number):
    worker, runs = Worker(store), []
    for _ in range(number):
        runs.append(store.create(make_config(corpus, "sccl", steps=500, every=2, depth="1"), corpus))
        worker.start(runs[-1].id)
    for place, run in enumerate(runs):
        while place % 3 == 0 and not run.snapshots():  # some are caught in training, with pictures; some never begin
            time.sleep(0.01)
        worker.stop(run.id)
    while any(run.status() != "stopped" for run in runs):
        time.sleep(0.01)
    worker.close()

store, corpus = Store(Path(sys.argv[1])), Corpus(obvious_table(), "text", "group")
queued_and_cancelled(1)
one = counted()
queued_and_cancelled(10)
ten = counted()
print(*one)
print(*ten)
"""


def test_ten_runs_queued_and_cancelled_leave_nothing_behind(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", MANY, str(tmp_path)], cwd=root, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    one, ten = (list(map(int, line.split())) for line in done.stdout.splitlines())
    assert ten[1:] == one[1:], "open files, threads and children are as many as after one run"
    assert ten[0] - one[0] < 50 << 20, f"{(ten[0] - one[0]) / 2**20:.0f} MB more"
    assert not list(tmp_path.rglob("*.part")) and len(Store(tmp_path).runs()) == 11
