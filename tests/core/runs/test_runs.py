"""The store: a folder that always opens, a log that retells the run, a lock that says who works."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from core.clusters.clustering import Clustering, ClusterTopic
from core.errors import BadInput
from core.events import Checkpoint, Ended, Note, Planned, Progress, Queued, StageStarted
from core.runs.config import RunConfig
from core.runs.log import Log, Story
from core.runs.store import Run, Store
from core.tables.corpus import Corpus
from tests.conftest import make_config


def test_a_run_is_read_back_as_it_was_made(store: Store, corpus: Corpus) -> None:
    config = make_config(corpus, "tfidf", seed=4)
    run = store.open(store.create(config, corpus).id)
    assert run.config == config
    assert run.corpus().table.to_numpy().tolist() == corpus.table.to_numpy().tolist()
    assert [item.id for item in store.runs()] == [run.id]


@pytest.mark.parametrize(
    "name", ["", "..", "../runs", "a/b", "20260101-000000-tfidf-abcdef", "x" * 300, "20260101-000000-..-abcdef", "\x00"]
)
def test_a_name_from_outside_never_becomes_a_path(store: Store, run: Run, name: str) -> None:
    with pytest.raises(BadInput):
        store.open(name)


def test_a_configuration_of_another_version_opens(run: Run) -> None:
    value = run.config.to_json()
    newer = RunConfig.from_json(value | {"surprise": 1})
    assert newer.to_json()["surprise"] == 1, "what is not known here is kept"
    older = {name: kept for name, kept in value.items() if name not in ("versions", "reasons", "revisions")}
    assert RunConfig.from_json(older).versions == {}
    assert RunConfig.from_json(value | {"precision": "int8"}).precision == "float32", "removed since"
    value.pop("seed")
    with pytest.raises(BadInput, match="lacks seed"):
        RunConfig.from_json(value)


@pytest.mark.parametrize("content", ["", "[]", "{}", "null", '{"knobs": 3}', '{"method": "gone"}'])
def test_a_run_that_cannot_be_read_is_listed_with_the_reason(store: Store, run: Run, content: str) -> None:
    if content == '{"method": "gone"}':
        content = json.dumps(run.config.to_json() | {"method": "gone"})
    (run.folder / "config.json").write_text(content)
    assert not store.runs() and store.unreadable()[run.id]
    with pytest.raises(BadInput, match="cannot be read"):
        store.open(run.id)
    store.delete(run.id)
    assert not store.unreadable()


def test_a_run_is_deleted_unless_somebody_works_on_it(store: Store, run: Run) -> None:
    lock = run.claim()
    with pytest.raises(BadInput, match="being worked on"):
        store.delete(run.id)
    lock.release()
    store.delete(run.id)
    assert not store.runs() and not list(store.folder.glob("*"))
    for name in (run.id, "../runs", ""):
        with pytest.raises(BadInput, match="no such run"):
            store.delete(name)


@pytest.mark.parametrize(
    ("events", "claimed", "status"),
    [
        ([], False, "interrupted"),
        ([], True, "new"),
        ([Queued()], True, "queued"),
        ([Queued()], False, "interrupted"),
        ([Queued(), StageStarted("map")], True, "running"),
        ([Queued(), StageStarted("map")], False, "interrupted"),
        ([StageStarted("map"), Ended("finished")], False, "finished"),
        ([StageStarted("map"), Ended("stopped")], False, "stopped"),
        ([StageStarted("map"), Ended("failed", "why", "trace")], False, "failed"),
        ([StageStarted("map"), Ended("stopped"), Queued()], True, "queued"),
        ([StageStarted("map"), Ended("failed"), Queued(), StageStarted("map")], True, "running"),
    ],
)
def test_status_is_folded_from_the_log_and_the_lock(run: Run, events: list, claimed: bool, status: str) -> None:
    lock = run.claim() if claimed else None
    for event in events:
        run.record(event)
    assert Run(run.folder).status() == status
    if lock:
        lock.release()


def test_the_story_follows_the_log_piece_by_piece(run: Run) -> None:
    run.record(Planned((("encode", 10.0), ("map", 5.0))))
    run.record(StageStarted("encode", 4))
    assert run.story().phase == "running"
    run.record(Progress("encode", 4, 4))
    run.record(Note("One plain sentence.", "warning"))
    run.record(StageStarted("map", 2))
    story = run.story()
    assert (story.stage, story.notes, set(story.seconds)) == ("map", [("warning", "One plain sentence.")], {"encode"})
    assert story == Run(run.folder).story(), "read in pieces or at once, the story is the same"


def test_time_left_is_by_pace_here_and_by_plan_later() -> None:
    story = Story(phase="running", stage="a", done=2, total=6, stage_began=100.0, road={"a": 50.0, "b": 7.0})
    assert story.seconds_left(110.0) == pytest.approx(20 + 7)
    story.done = 0
    assert story.seconds_left(110.0) == pytest.approx(40 + 7)
    resumed = Story(phase="running", stage="a", done=4, total=6, pace_from=(100.0, 2), road={"a": 50.0})
    assert resumed.seconds_left_here(110.0) == pytest.approx(10), "what was done before is not this pace"
    assert Story().seconds_left_here(1.0) is None


def test_time_left_goes_by_the_plan_where_no_pace_is_known() -> None:
    """Of two maps the first has just been drawn; then something follows that is not counted."""
    story = Story("running", {"map": 40.0}, "map", stage_began=100.0)
    story.add({"time": 122.0, "event": "Progress", "stage": "map", "done": 1, "total": 2})
    assert story.seconds_left_here(122.0) == pytest.approx(20) and story.seconds_left_here(127.0) == pytest.approx(15)
    story.add({"time": 130.0, "event": "Progress", "stage": "map", "done": 2, "total": 2})
    assert story.seconds_left_here(131.0) == pytest.approx(9) and story.seconds_left_here(200.0) == 1.0


def test_progress_is_thinned_but_its_end_is_kept(run: Run) -> None:
    for done in range(1, 1001):
        run.record(Progress("encode", done, 1000))
    records, _ = run.log.read()
    assert len(records) < 20 and records[-1]["done"] == 1000


def test_a_torn_last_line_is_left_alone_by_readers_and_cut_by_the_owner(run: Run) -> None:
    run.record(StageStarted("map"))
    whole = run.log.path.read_bytes()
    with run.log.path.open("ab") as file:
        file.write(b'{"time": 1, "event": "En')
    records, end = Log(run.log.path).read()
    assert len(records) == 1 and end == len(whole)
    run.claim().release()
    assert run.log.path.read_bytes() == whole
    run.record(Ended("finished"))
    assert run.status() == "finished"


def test_every_line_of_the_log_is_json_both_ways(run: Run) -> None:
    for event in (
        Queued(),
        Checkpoint("train", {"a": np.ones(3)}, {"n": 1, "looks": [{"step": 1}] * 50}),
        Note("“quoted”\n\ud800"),
        Ended("failed", "x", "y\nz"),
    ):
        run.record(event)
    assert "looks" not in run.log.path.read_text("utf-8"), (
        "lists that grow are not written into the log again and again"
    )
    for line in run.log.path.read_text("utf-8").splitlines():
        assert json.loads(json.dumps(json.loads(line))) == json.loads(line)


def test_a_checkpoint_comes_back_whole(run: Run) -> None:
    assert run.state().find("cluster") is None
    run.record(Checkpoint("train all", {"step": np.float32(3)}, {}))
    run.record(Checkpoint("cluster", {"centres": np.arange(6.0).reshape(2, 3)}, {"starts": 3, "inertia": 0.1 + 0.2}))
    assert run.state().find("train all").arrays["step"].item() == 3
    state = run.state().find("cluster")
    np.testing.assert_array_equal(state.arrays["centres"], np.arange(6.0).reshape(2, 3))
    assert state.values == {"starts": 3, "inertia": 0.1 + 0.2}


def test_only_one_process_can_claim_a_run(run: Run) -> None:
    lock = run.claim()
    assert run.is_claimed()
    with pytest.raises(BadInput, match="already being worked on"):
        Run(run.folder).claim(patience=0.05)
    lock.release()
    assert not run.is_claimed()


WRITER = """
import sys, numpy as np
from pathlib import Path
from core.events import Checkpoint, StageStarted, Progress
from core.runs.store import Store
store = Store(Path(sys.argv[1]))
first = store.runs()[0]
config, corpus = first.config, first.corpus()
lock = first.claim()
print("ready", flush=True)
for i in range(10**9):
    first.record(StageStarted(f"stage {i}", 5))
    first.record(Checkpoint("train", {"a": np.full(200_000, i, np.float32)}, {"i": i}))
    first.results.save_metrics({"i": i, "pad": "x" * 100_000})
    first.results.save_map(np.full(100_000, i), {"umap": np.full((100_000, 2), i, np.float32)})
    store.create(config, corpus)
"""


@pytest.mark.parametrize("attempt", range(6))
def test_kill_9_in_mid_write_leaves_a_store_that_opens(store: Store, run: Run, attempt: int) -> None:
    root = Path(__file__).parents[3]
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(store.folder)], cwd=root, stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
    time.sleep(random.Random(attempt).uniform(0.05, 0.6))
    os.kill(writer.pid, signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    opened = store.open(run.id)
    assert opened.status() == "interrupted"
    state = opened.state().find("train")
    if state is not None:
        assert set(state.arrays["a"]) == {state.values["i"]}
    if (opened.folder / "metrics.json").exists():
        assert len(opened.results.metrics()["pad"]) == 100_000
    if (opened.folder / "map" / "umap.npy").exists():
        assert len(np.unique(opened.results.map("umap")[1])) == 1
    for item in store.runs():
        assert item.config == run.config and len(item.corpus().table) == 36
    lock = opened.claim()
    opened.record(Ended("stopped"))
    lock.release()
    assert store.open(run.id).status() == "stopped"


def test_the_command_line_names_what_matters(store: Store, corpus: Corpus) -> None:
    config = make_config(corpus, "embed", pooling="first", seed=3)
    command = config.command()
    for part in (
        "run table.csv --text text --label group",
        "--method embed",
        "--set clusters=3",
        "--set pooling=first",
        "--seed 3",
    ):
        assert part in command
    assert "normalise" not in command and "--encoder" not in command


def test_what_a_method_found_beside_labels_comes_back(run: Run) -> None:
    topics = (ClusterTopic(0, 0.7, ("late", "courier"), (0.5, 0.25)), ClusterTopic(0, 0.3, ("box",), (1.0,)))
    soft = np.array([[0.9, 0.1], [0.2, 0.8]], np.float32)
    before = np.array([[0.1, 0.2], [0.3, 0.4]], np.float32)
    found = replace(Clustering.from_soft(before + 1, soft), before=before, topics=topics)
    run.results.save_clustering(found.with_beside("q", soft))
    opened = run.results.clustering()
    assert opened.topics == topics and set(opened.beside) == {"q"}
    np.testing.assert_allclose(opened.before, before, rtol=1e-3)
    np.testing.assert_array_equal(opened.labels, found.labels)
