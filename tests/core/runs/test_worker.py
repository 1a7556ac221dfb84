"""The worker: one run after another in the background, and never a lie about how one ended."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from core.maps.projector import Projector
from core.methods import find_method
from core.methods.bow import Bow
from core.runs.config import resolve
from core.runs.labelling import Labelling
from core.runs.store import Run, Store
from core.runs.worker import Worker, drive
from core.tables.corpus import Corpus
from tests.conftest import make_config, obvious_table


@pytest.fixture
def worker(store: Store) -> Iterator[Worker]:
    """Return a worker that is closed at the end."""
    worker = Worker(store)
    yield worker
    worker.close()


def wait_for(condition: Callable[[], bool], seconds: float = 120) -> None:
    """Wait until something is so; fail if it never is."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it never came about"
        time.sleep(0.02)


def slowly(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Make counting words wait, so that a run can be caught in the act; return what lets it go on."""
    go = threading.Event()
    original = Bow.fit

    def fit(self, bench, state=None):  # type: ignore[no-untyped-def]
        from core.events import StageStarted

        yield StageStarted("count words")
        while not go.wait(0.01):
            yield
        return (yield from original(self, bench, state))

    monkeypatch.setattr(Bow, "fit", fit)
    return go


def test_a_run_goes_from_queued_to_finished_and_the_thread_ends(worker: Worker, store: Store, run: Run) -> None:
    worker.start(run.id)
    wait_for(lambda: store.open(run.id).status() == "finished")
    wait_for(lambda: worker._thread is None)
    assert not worker.owns(run.id) and not run.is_claimed()
    assert len(Labelling.of(store.open(run.id)).table()) == 36


def test_runs_wait_their_turn_can_be_withdrawn_and_stopped(
    worker: Worker, store: Store, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = slowly(monkeypatch)
    runs = [store.create(make_config(corpus, "bow"), corpus) for _ in range(3)]
    for run in runs:
        worker.start(run.id)
    wait_for(lambda: runs[0].status() == "running")
    assert [run.status() for run in runs[1:]] == ["queued", "queued"]
    assert [worker.ahead_of(run.id) for run in runs] == [0, 1, 2]
    worker.stop(runs[1].id)
    assert runs[1].status() == "stopped"
    worker.stop(runs[0].id)
    wait_for(lambda: runs[0].status() == "stopped")
    go.set()
    wait_for(lambda: runs[2].status() == "finished")


def test_a_stopped_run_resumes(
    worker: Worker, run: Run, store: Store, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = slowly(monkeypatch)
    run = store.create(make_config(corpus, "bow"), corpus)
    worker.start(run.id)
    wait_for(lambda: run.status() == "running")
    worker.stop(run.id)
    wait_for(lambda: run.status() == "stopped")
    go.set()
    wait_for(lambda: not run.is_claimed())
    worker.start(run.id)
    wait_for(lambda: run.status() == "finished")


def test_a_fault_is_told_in_a_sentence_and_the_worker_goes_on(
    worker: Worker, store: Store, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("core.methods.base.partition", lambda *_, **__: 1 / 0)
        broken = store.create(make_config(corpus, "bow"), corpus)
        worker.start(broken.id)
        wait_for(lambda: broken.status() == "failed")
    story = broken.story()
    assert "ZeroDivisionError" in story.message and "\n" not in story.message and "Traceback" in story.traceback
    sound = store.create(make_config(corpus, "bow"), corpus)
    worker.start(sound.id)
    wait_for(lambda: sound.status() == "finished")


def test_a_projection_under_way_is_killed_when_the_run_is_stopped(worker: Worker, store: Store) -> None:
    import pandas as pd

    rng = np.random.default_rng(0)
    words = np.array([f"word{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(500)])
    table = pd.DataFrame({"text": [" ".join(rng.choice(words, 8)) for _ in range(4_000)]}, dtype="str")
    corpus = Corpus(table, "text")
    run = store.create(make_config(corpus, "tfidf"), corpus)
    worker.start(run.id)
    wait_for(lambda: run.story().stage == "map")
    wait_for(lambda: worker.projector._turn.locked() and worker.projector._child is not None)
    assert worker.projector._child is not None
    child = worker.projector._child.pid
    worker.stop(run.id)
    wait_for(lambda: run.status() == "stopped")
    wait_for(lambda: not psutil.pid_exists(child))


EXIT = """
import sys, time
from pathlib import Path
from core.runs.store import Store
from core.maps.projector import Projector
from core.runs.worker import Worker, drive
store = Store(Path(sys.argv[1]))
worker = Worker(store)
worker.start(sys.argv[2])
while store.open(sys.argv[2]).story().stage != "map":
    time.sleep(0.01)
"""


def test_an_interpreter_that_exits_ends_its_run_as_stopped(store: Store, run: Run) -> None:
    root = Path(__file__).parents[3]
    ended = subprocess.run([sys.executable, "-c", EXIT, str(store.folder), run.id], cwd=root, timeout=120)
    assert ended.returncode == 0
    assert store.open(run.id).status() == "stopped"


def test_closing_takes_no_more_runs(store: Store, run: Run) -> None:
    worker = Worker(store)
    worker.close()
    from core.errors import BadInput

    with pytest.raises(BadInput, match="shutting down"):
        worker.start(run.id)


def _latin_encoder(folder: Path) -> None:
    """Build a tiny encoder whose tokenizer knows Latin letters only and drops all others without a word."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    known = ["[PAD]", "[CLS]", "[SEP]", *"abcdefghijklmnopqrstuvwxyz"]
    letters = {letter: place for place, letter in enumerate(known)}
    tokenizer = Tokenizer(models.BPE(vocab=letters, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]")
    fast.save_pretrained(folder)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(vocab_size=len(letters), **sizes)).save_pretrained(folder)


def test_a_text_of_which_no_token_is_left_is_left_out_with_its_reason(
    store: Store, projector: Projector, tmp_path: Path
) -> None:
    _latin_encoder(tmp_path / "latin")
    table = obvious_table()
    table.loc[[3, 7], "text"] = ["Привет мир", "日本語"]
    corpus = Corpus(table, "text", "group")
    built = find_method("embed").from_knobs({"clusters": 3})
    config = resolve(corpus, built, file="t.csv", file_sha256="0" * 64, reading={}, encoder=str(tmp_path / "latin"))
    run = store.create(config, corpus)
    assert drive(run, projector, lambda: False) == "finished", run.story().traceback
    labelled = Labelling.of(run).table()
    assert list(labelled["cluster_name"][[3, 7]]) == ["left out: nothing the encoder can read"] * 2
    assert list(labelled["cluster"][[3, 7]]) == ["", ""] and (labelled["cluster"] != "").sum() == len(table) - 2
    assert run.corpus().left_out == {"nothing the encoder can read": 2}
