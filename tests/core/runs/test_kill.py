"""Kill -9 during each kind of write of a training: the store opens, the run resumes, the result is the same."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

from core.maps.projector import Projector
from core.runs.painter import Painter
from core.runs.store import Store
from core.runs.worker import drive

ROOT = Path(__file__).parents[3]

# One process loads the libraries; each killed run is a fork of it. The first is not killed and tells what there is.
KILLED = """
import os, signal, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
import core.files
from core.tables.corpus import Corpus
from core.events import Snapshot
from core.runs.painter import Painter
from core.runs.log import Log
from core.runs.store import Store
from core.maps.projector import Projector
from core.runs.worker import drive
from tests.conftest import TINY, make_config, obvious_table
from tests.core.runs.test_kill import kind_of

folder, replace, append = Path(sys.argv[1]), os.replace, Log.append
corpus = Corpus(obvious_table(), "text", "group")
config = make_config(corpus, "sccl", steps=4, every=2, depth="1", rate=1e-3, encoder=TINY)

def work(name, victim):
    store = Store(folder / name)
    seen = open(folder / "kinds.txt", "a")
    def dying(source, target):
        kind = kind_of(Path(target), store.folder)
        if kind == victim:
            os.kill(os.getpid(), signal.SIGKILL)
        if victim is None and kind:
            seen.write(kind + chr(10))
            seen.flush()
        replace(source, target)
    def torn(log, event):
        if victim == log.path.name and isinstance(event, Snapshot):
            with log.path.open("ab") as file:
                file.write(b'{"time": 1794970000.0, "event": "Snap')
            os.kill(os.getpid(), signal.SIGKILL)
        if victim is None:
            seen.write(log.path.name + chr(10))
            seen.flush()
        append(log, event)
    os.replace, Log.append = dying, torn
    projector = Projector()
    run = store.create(config, corpus)
    drive(run, projector, lambda: False)
    if victim in (None, "frames"):
        painter = Painter(store.open(run.id), projector)
        painter.finish()
        painter.wait()
    projector.close()

def forked(name, victim):
    child = os.fork()
    if not child:
        try:
            work(name, victim)
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1]

assert forked("whole", None) == 0
kinds = sorted(set((folder / "kinds.txt").read_text().split(chr(10))) - {""})
for number, kind in enumerate(kinds):
    assert os.WTERMSIG(forked(f"killed-{number}", kind)) == signal.SIGKILL, kind
print(len(kinds))
"""


def kind_of(path: Path, folder: Path) -> str:
    """Name what is written: a run's file, its folder, or a checkpoint without numbers; nothing for other files."""
    if not path.is_relative_to(folder):
        return ""
    parts = path.relative_to(folder).parts
    return re.sub(r"-?\d+", "", "-".join(parts[2:])) if parts[1] == "checkpoints" else parts[1]


def test_kill_9_during_each_kind_of_write_loses_nothing(tmp_path: Path, projector: Projector) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    whole = Store(tmp_path / "whole").runs()[0]
    assert whole.status() == "finished", whole.story().message
    kinds = sorted(set((tmp_path / "kinds.txt").read_text().split("\n")) - {""})
    assert len(kinds) == int(done.stdout) and len(kinds) > 12, kinds
    for number, kind in enumerate(kinds):
        store = Store(tmp_path / f"killed-{number}")
        runs = store.runs()  # a run whose making was cut short is not there; everything else is
        for run in runs:
            if run.status() != "finished":
                assert run.status() == "interrupted", kind
                assert drive(run, projector, lambda: False) == "finished", (kind, run.story().traceback)
            assert np.array_equal(run.results.clustering().labels, whole.results.clustering().labels), kind
            if kind == "frames":
                painter = Painter(run, projector)
                painter.finish()
                painter.wait()
                assert not run.frames().missing()
        assert runs or kind in ("config.json", "corpus.parquet"), kind
